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

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from course_lib.base.checked import checked
from course_lib.base.checks import not_negative
from course_lib.cost.collectives.network import Network
from course_lib.layouts.link import Link
from course_lib.schedules.action import KINDS, Action, Cell, Overlap, actions_in
from course_lib.schedules.dependencies import Result, result_of
from course_lib.schedules.stage_times import StageTimes
from course_lib.schedules.table import Schedule
from course_lib.schedules.trace import ActionSpan, MessageSpan, ScheduleTrace
from course_lib.schedules.validation import validate

__all__ = ["INSTANT", "simulate"]

INSTANT = Link(0.0, float("inf"))
_MADE = "FBW"  # the letters of results
_new: Callable[..., Any] = tuple.__new__  # a named tuple without the checks of its own
_NEVER = -1.0  # a moment that has not come; all others are at 0 or later


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
    with _no_collections():
        return _Run(schedule, _per_stage(times, schedule), routes, overlap).go()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Python looks for garbage after so many new objects. A trace has many and none is garbage: a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Route(NamedTuple):
    """Where the result of a stage goes, and how: seconds of latency, and seconds for its bytes."""

    receiver: int
    latency_s: float
    bytes_s: float
    link: int  # which of the links, each one way between two ranks


class _Task(NamedTuple):
    """What one kind of action on one stage needs and makes, whichever micro-batch it is.

    Moments stand in one list. A place here is that of the first micro-batch; those of the others follow it.
    """

    needs: tuple[int, ...]  # where it is told when what it needs is there
    makes: int  # where it is told when its result was made
    time_s: float
    route: _Route | None


class _Run:
    """One simulation that is running.

    ``there_s`` tells of each result when it was made and, ``far`` places behind, when it arrived at another rank.
    """

    def __init__(
        self,
        schedule: Schedule,
        times: Sequence[StageTimes],
        routes: dict[tuple[str, int], _Route],
        overlap: bool,
    ) -> None:
        self.schedule, self.overlap = schedule, overlap
        self.overlapped_s = [stage.overlapped_s for stage in times]
        self.works = [self._works(rank) for rank in range(schedule.num_ranks)]
        self.places = [0] * schedule.num_ranks  # of the work that comes next
        self.rows: list[list[ActionSpan]] = [[] for _ in schedule.rows]
        self.free_s = [0.0] * schedule.num_ranks
        self.sent: dict[int, MessageSpan] = {}  # by the place of the result
        self.link_free_s = [0.0] * (1 + max((route.link for route in routes.values()), default=0))
        numbers = {micro_batch for row in schedule.rows for _, _, micro_batch in row} or {0}
        self.first, self.count = min(numbers), max(numbers) - min(numbers) + 1
        self.far = len(_MADE) * schedule.num_stages * self.count
        self.there_s = [_NEVER] * (2 * self.far)
        self.tasks = {
            kind: [
                self._task(Action(kind, stage, 0), routes, times[stage].time_s(kind))
                for stage in range(schedule.num_stages)
            ]
            for kind in KINDS
        }

    def go(self) -> ScheduleTrace:
        """Let each rank run until it lacks something, and go on when that has been made."""
        waiting: dict[int, list[int]] = {}  # the ranks that lack a result, by its place
        ready = list(range(self.schedule.num_ranks))
        while ready:
            rank = ready.pop()
            lacks = self._run(rank, ready, waiting)
            if lacks is not None:
                waiting.setdefault(lacks, []).append(rank)
        if waiting:
            raise ValueError(f"{self.schedule.name!r} never ends: {validate(self.schedule)[0]}.")
        return ScheduleTrace(self.schedule, tuple(map(tuple, self.rows)), tuple(self.sent.values()), self.overlap)

    def _works(self, rank: int) -> Sequence[Cell]:
        """What a rank runs in one piece, in its order: an action, or two that overlap."""
        row = self.schedule.rows[rank]
        if row == self.schedule.actions[rank]:  # one by one
            return row
        works: list[Cell] = []
        for cell in self.schedule.actions[rank]:
            if cell is not None:
                whole = isinstance(cell, Action) or self._together_s(cell) is not None
                works += [cell] if whole else actions_in(cell)
        return works

    def _together_s(self, cell: Overlap) -> float | None:
        """How long two actions take that overlap; None where their stages do not tell."""
        both_s = [both_s for action in cell if (both_s := self.overlapped_s[action.stage]) is not None]
        return sum(both_s) / 2 if len(both_s) == 2 else None

    def _place(self, result: Result) -> int:
        letter, stage, micro_batch = result
        row = _MADE.index(letter) * self.schedule.num_stages + stage
        return row * self.count + micro_batch - self.first

    def _task(self, action: Action, routes: dict[tuple[str, int], _Route], time_s: float) -> _Task:
        needs = []
        for result in self.schedule.dependencies.needs_of(action):
            sent = result[1] != action.stage and result[:2] in routes
            needs.append(self._place(result) + self.far * sent)
        made = result_of(action)
        return _Task(tuple(needs), self._place(made), time_s, routes.get(made[:2]))

    def _run(self, rank: int, ready: list[int], waiting: dict[int, list[int]]) -> int | None:
        """Run all that a rank can; the place of the result that it lacks, None at its end."""
        there_s, tasks, works, spans = self.there_s, self.tasks, self.works[rank], self.rows[rank]
        far, overlap, free_s = self.far, self.overlap, self.free_s[rank]
        sent, link_free_s = self.sent, self.link_free_s
        for place in range(self.places[rank], len(works)):
            work, start_s = works[place], free_s
            parts = work if isinstance(work, Overlap) else (work,)
            for kind, stage, micro_batch in parts:
                needs, makes, time_s, route = tasks[kind][stage]
                for first in needs:
                    need = first + micro_batch
                    at_s = there_s[need]
                    if at_s < 0:
                        self.places[rank], self.free_s[rank] = place, free_s
                        return need if need < far else need - far
                    if not overlap and need >= far:  # the receiver is busy with it as long as the sender was
                        start_s += sent[need - far].time_s
                    if at_s > start_s:
                        start_s = at_s
            if isinstance(work, Overlap):
                time_s = self._together_s(work) or 0.0
            end_s = free_s = start_s + time_s
            for action in parts:
                if len(parts) > 1:
                    _, makes, _, route = tasks[action[0]][action[1]]
                made = makes + action[2]
                spans.append(_new(ActionSpan, (rank, action, start_s, end_s)))
                there_s[made] = end_s
                if route is not None:
                    receiver, latency_s, bytes_s, link = route
                    sets_out_s = link_free_s[link] if link_free_s[link] > free_s else free_s
                    link_free_s[link] = sets_out_s + bytes_s
                    arrives_s = there_s[far + made] = sets_out_s + latency_s + bytes_s
                    sent[made] = _new(MessageSpan, (rank, receiver, action, sets_out_s, arrives_s))
                    if not overlap:
                        free_s = arrives_s
                if made in waiting:
                    ready += waiting.pop(made)
        return None


def _routes(schedule: Schedule, link: Link | Network, sizes_bytes: Sequence[float]) -> dict[tuple[str, int], _Route]:
    """The way of what a stage makes, by its letter (F or B) and the stage; none within a rank."""
    routes: dict[tuple[str, int], _Route] = {}
    links: dict[tuple[int, int], int] = {}
    for boundary, size_bytes in enumerate(sizes_bytes):
        before, behind = schedule.rank_of_stage[boundary : boundary + 2]
        for kind, stage, sender, receiver in (
            ("F", boundary, before, behind),
            ("B", boundary + 1, behind, before),
        ):
            if sender != receiver:
                way = link.link(sender, receiver) if isinstance(link, Network) else link
                bytes_s = size_bytes / way.bandwidth_bytes_per_s
                number = links.setdefault((sender, receiver), len(links))
                routes[kind, stage] = _Route(receiver, way.latency_s, bytes_s, number)
    return routes


def _refuse_strays(schedule: Schedule) -> None:
    """Raise ValueError for actions that have no time because their letter or stage is not there, or is elsewhere."""
    num_stages, rank_of = schedule.num_stages, schedule.rank_of_stage
    for rank, row in enumerate(schedule.rows):
        for kind, stage in {(kind, stage) for kind, stage, _ in row}:
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
