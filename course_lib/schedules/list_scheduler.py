"""A schedule for stages of any times under a limit of memory: a list scheduler, in the words of the field.

It builds the table action by action. Of all actions that may come next on some rank, it takes the one that can start
earliest. Where several can start at the same moment, I goes before F, and F before W: a stage before waits for the I,
a stage behind for the F, and nobody but the optimizer for the W. A rank that is full may begin no F, so its W's run.

It is no search for the shortest table: nothing that is placed moves again. ``tests/schedules/test_list_scheduler.py``
lays its step times beside those of the best table of small sizes, and beside bounds that no table can undercut.
"""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.schedules.action import Action
from course_lib.schedules.stage_times import StageTimes
from course_lib.schedules.table import Schedule, check_counts, placement

__all__ = ["list_schedule"]

_MOST_SEARCHED = 20_000  # forwards: seconds
_ORDER = "IFW"  # which kind goes first where several can start at once


@checked
def list_schedule(times: Sequence[StageTimes], num_micro_batches: int, max_in_flight: int) -> Schedule:
    """A schedule of F, I and W, with activations of at most ``max_in_flight`` micro-batches on every rank.

    ``times`` are those of each stage, and each rank has one stage. A micro-batch is in flight until its W, as
    ``peak_in_flight`` counts. Messages take no time. Raises ValueError for counts below 1, for no stages, and for a
    table of so many actions that it would take minutes.
    """
    num_ranks = len(times)
    check_counts(num_ranks, num_micro_batches)
    at_least(1, max_in_flight=max_in_flight)
    if num_ranks * num_micro_batches > _MOST_SEARCHED:
        raise ValueError(
            f"{num_ranks} stages and num_micro_batches={num_micro_batches} make {num_ranks * num_micro_batches:,} "
            f"forwards; this scheduler takes at most {_MOST_SEARCHED:,}. Take {max(1, _MOST_SEARCHED // num_ranks)} "
            "micro-batches."
        )
    table = _Table(times, num_micro_batches, max_in_flight)
    for _ in range(3 * num_ranks * num_micro_batches):
        table.put(*min(table.offers()))
    rows = tuple(map(tuple, table.rows))
    return Schedule(f"list, {max_in_flight} in flight", num_micro_batches, placement(num_ranks), rows)


class _Table:
    """The part of a schedule that is placed."""

    def __init__(self, times: Sequence[StageTimes], num_micro_batches: int, max_in_flight: int) -> None:
        self.times, self.m, self.limit = times, num_micro_batches, max_in_flight
        self.rows: list[list[Action]] = [[] for _ in times]
        self.count: list[dict[str, int]] = [dict.fromkeys(_ORDER, 0) for _ in times]  # of each kind, by stage
        self.free_s = [0.0] * len(times)
        self.end_s: dict[tuple[str, int, int], float] = {}

    def offers(self) -> list[tuple[float, int, int]]:
        """Of each stage and kind the next action that may come: its start in seconds, the kind's turn, the stage."""
        return [
            (max(ready_s, self.free_s[stage]), turn, stage)
            for stage in range(len(self.rows))
            for turn, kind in enumerate(_ORDER)
            if (ready_s := self._ready_s(kind, stage)) is not None
        ]

    def put(self, start_s: float, turn: int, stage: int) -> None:
        """Place the next action of a kind on a stage."""
        kind, count = _ORDER[turn], self.count[stage]
        self.rows[stage].append(Action(kind, stage, count[kind]))
        self.free_s[stage] = self.end_s[kind, stage, count[kind]] = start_s + self.times[stage].time_s(kind)
        count[kind] += 1

    def _ready_s(self, kind: str, stage: int) -> float | None:
        """When what the next action of this kind needs is there; None where that is not placed, or no room is left."""
        count, last = self.count[stage], len(self.rows) - 1
        i = count[kind]
        if i == self.m or (kind == "F" and i - count["W"] == self.limit):
            return None
        if kind == "F":
            return self.end_s.get(("F", stage - 1, i)) if stage else 0.0
        if kind == "W":
            return self.end_s.get(("I", stage, i))
        if stage == last:
            return self.end_s.get(("F", stage, i))
        return self.end_s.get(("I", stage + 1, i)) if i < count["F"] else None
