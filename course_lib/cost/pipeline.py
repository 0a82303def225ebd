"""When a pipeline's actions start and end: a simulation of any schedule, for stages and links of any speed.

Each rank runs its row in order. An action starts when its rank is free and what it needs has arrived. There are two
readings of a message:

- overlapped (``overlap=True``): it travels while both ranks compute. A link carries the bytes of one message after
  the other in each direction; latencies do not queue. With infinite bandwidth a message is pure latency. (The links
  that the course shapes do queue them, and a message sets out when both ends ask for it: where the latency is longer
  than an action, a run on ranks takes longer than this says.)
- not overlapped: the sender is busy with it after its action, and the receiver before its own. The receiver cannot
  finish before the sender does, but the sender does not wait for the receiver.

A forward and a backward that overlap (F&B) are simulated one after the other, each sending what it made when it is
done, unless the times of their stages say ``overlapped_s``. Then they are one piece of work: it begins when both have
what they need, and both results are there at its end. For DualPipeV with F, I and W of equal time the first reading
leaves the stagger alone (0.0588 of the step with 4 ranks and 8 micro-batches), the second what the formula of its
authors says.

``simulate(...).bubble_rate`` is the measure of Qi et al. (arXiv 2401.10241), tables 5 and 9 of which this model
reproduces: to the last digit for 1F1B and ZB-H1. For interleaved 1F1B it comes out up to 0.004 above the paper: here
every micro-batch travels from the last rank back to the first between two virtual stages, and the paper's numbers
follow when only the first micro-batch of each group of p is made to wait for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from course_lib.checked import checked
from course_lib.checks import not_negative
from course_lib.cost.network import Network
from course_lib.link import Link
from course_lib.schedules.action import KINDS, Action
from course_lib.schedules.dependencies import Result, result_of
from course_lib.schedules.stage_times import StageTimes
from course_lib.schedules.table import Schedule
from course_lib.schedules.trace import ActionSpan, MessageSpan, ScheduleTrace
from course_lib.schedules.validation import validate

__all__ = ["INSTANT", "simulate"]

INSTANT = Link(0.0, float("inf"))


@checked
def simulate(
    schedule: Schedule,
    times: StageTimes | Sequence[StageTimes],
    *,
    link: Link | Network = INSTANT,
    message_bytes: float | Sequence[float] = 0.0,
    overlap: bool = True,
) -> ScheduleTrace:
    """Run ``schedule`` with the given times and links; who does what when is in the result.

    ``times`` are those of every stage, or one for each. ``message_bytes`` is what one micro-batch's activations
    take after a stage, and its gradients there on the way back: one size, or one for each boundary between stages.
    A forward and a backward that overlap take the mean of ``overlapped_s`` of their stages, where both have it.
    Raises ValueError for counts that do not fit the schedule, and for a deadlock; ``validate`` says why.
    """
    _refuse_strays(schedule)
    routes = _routes(schedule, link, _per_boundary(message_bytes, schedule))
    return _Run(schedule, _per_stage(times, schedule), routes, overlap).go()


class _Route(NamedTuple):
    """Where the result of a stage goes, and how: seconds of latency, and seconds for its bytes."""

    receiver: int
    latency_s: float
    bytes_s: float


class _Work(NamedTuple):
    """What a rank runs in one piece: an action with what it needs, or two that overlap."""

    parts: Sequence[tuple[Action, Sequence[Result]]]
    time_s: float


class _Run:
    """One simulation under way."""

    def __init__(
        self,
        schedule: Schedule,
        times: Sequence[StageTimes],
        routes: dict[tuple[str, int], _Route],
        overlap: bool,
    ) -> None:
        self.schedule, self.routes, self.overlap = schedule, routes, overlap
        self.times_s = [{kind: stage.time_s(kind) for kind in KINDS} for stage in times]
        self.overlapped_s = [stage.overlapped_s for stage in times]
        self.rows: list[list[ActionSpan]] = [[] for _ in schedule.rows]
        self.free_s = [0.0] * schedule.num_ranks
        self.done_s: dict[Result, float] = {}  # when it was made
        self.sent: dict[Result, MessageSpan] = {}  # those that went to another rank
        self.link_free_s: dict[tuple[int, int], float] = {}  # by sender and receiver

    def go(self) -> ScheduleTrace:
        """Let each rank run until it lacks something, and go on when that has been made."""
        done_s = self.done_s
        works = [self._works(rank) for rank in range(self.schedule.num_ranks)]
        places = [0] * len(works)
        waiting: dict[Result, list[int]] = {}  # the ranks that lack it
        ready = list(range(self.schedule.num_ranks))
        while ready:
            rank = ready.pop()
            for place in range(places[rank], len(works[rank])):
                work = works[rank][place]
                lacks = [result for _, needed in work.parts for result in needed if result not in done_s]
                if lacks:
                    places[rank] = place
                    waiting.setdefault(lacks[0], []).append(rank)
                    break
                self._run(rank, work)
                for action, _ in work.parts:
                    ready += waiting.pop(result_of(action), [])
        if waiting:
            raise ValueError(f"{self.schedule.name!r} never ends: {validate(self.schedule)[0]}.")
        return ScheduleTrace(
            self.schedule, tuple(map(tuple, self.rows)), tuple(self.sent.values()), self.overlap
        )

    def _works(self, rank: int) -> list[_Work]:
        """What a rank runs in one piece, in its order, with the needs of each action."""
        row, needs = self.schedule.rows[rank], iter(self.schedule.dependencies.needs[rank])
        parts = [(action, next(needs)) for action in row]
        works, place = [], 0
        for cell in self.schedule.in_cells[rank]:
            mine, place = parts[place : place + len(cell)], place + len(cell)
            both_s = [both_s for a in cell if (both_s := self.overlapped_s[a.stage]) is not None]
            if len(cell) == len(both_s) == 2:
                works.append(_Work(mine, sum(both_s) / 2))
            else:
                works += [_Work([part], self.times_s[part[0].stage][part[0].kind]) for part in mine]
        return works

    def _run(self, rank: int, work: _Work) -> None:
        start_s = self.free_s[rank]
        for action, needed in work.parts:
            for each in needed:
                message = self.sent.get(each) if each[1] != action.stage else None
                if message is None:  # made on this rank
                    start_s = max(start_s, self.done_s[each])
                elif self.overlap:
                    start_s = max(start_s, message.end_s)
                else:  # busy with it for as long as the sender was, and not done before the sender is
                    start_s = max(start_s + message.time_s, message.end_s)
        end_s = self.free_s[rank] = start_s + work.time_s
        for action, _ in work.parts:
            result = result_of(action)
            self.rows[rank].append(ActionSpan(rank, action, start_s, end_s))
            self.done_s[result] = end_s
            route = self.routes.get((result[0], action.stage))
            if route:
                self.sent[result] = self._send(rank, route, action, self.free_s[rank])

    def _send(self, sender: int, route: _Route, action: Action, ready_s: float) -> MessageSpan:
        receiver, latency_s, bytes_s = route
        start_s = max(ready_s, self.link_free_s.get((sender, receiver), 0.0))
        message = MessageSpan(sender, receiver, action, start_s, start_s + latency_s + bytes_s)
        self.link_free_s[sender, receiver] = start_s + bytes_s
        if not self.overlap:
            self.free_s[sender] = message.end_s
        return message


def _routes(
    schedule: Schedule, link: Link | Network, sizes_bytes: Sequence[float]
) -> dict[tuple[str, int], _Route]:
    """The way of what a stage makes, by its letter (F or B) and the stage; none within a rank."""
    routes = {}
    for boundary, size_bytes in enumerate(sizes_bytes):
        before, behind = schedule.rank_of_stage[boundary : boundary + 2]
        for kind, stage, sender, receiver in (
            ("F", boundary, before, behind),
            ("B", boundary + 1, behind, before),
        ):
            if sender != receiver:
                way = link.link(sender, receiver) if isinstance(link, Network) else link
                routes[kind, stage] = _Route(receiver, way.latency_s, size_bytes / way.bandwidth_bytes_per_s)
    return routes


def _refuse_strays(schedule: Schedule) -> None:
    """Raise ValueError for actions that have no time because their letter or stage is not there, or is elsewhere."""
    num_stages, rank_of = schedule.num_stages, schedule.rank_of_stage
    for rank, row in enumerate(schedule.rows):
        for kind, stage, _ in row:
            if kind not in KINDS or not 0 <= stage < num_stages or rank_of[stage] != rank:
                raise ValueError(f"{schedule.name!r} cannot be simulated: {validate(schedule)[0]}.")


def _per_stage(times: StageTimes | Sequence[StageTimes], schedule: Schedule) -> Sequence[StageTimes]:
    if isinstance(times, StageTimes):
        return [times] * schedule.num_stages
    if len(times) != schedule.num_stages:
        raise ValueError(
            f"There are times for {len(times)} stages, and {schedule.name!r} has {schedule.num_stages}; give one for "
            "each stage, or one for all."
        )
    return times


def _per_boundary(message_bytes: float | Sequence[float], schedule: Schedule) -> Sequence[float]:
    boundaries = schedule.num_stages - 1
    sizes_bytes = [message_bytes] * boundaries if isinstance(message_bytes, int | float) else message_bytes
    if len(sizes_bytes) != boundaries:
        raise ValueError(
            f"message_bytes has {len(sizes_bytes)} sizes for {boundaries} boundaries between stages; give one for "
            "each, or one for all."
        )
    for size_bytes in sizes_bytes:
        not_negative(message_bytes=size_bytes)
    return sizes_bytes
