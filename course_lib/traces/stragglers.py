"""Who keeps the others waiting: calls of one collective compared among ranks, without a common clock.

A collective ends on all ranks at about the same time and begins on each when that rank is ready. So in each call the
rank with the shortest time came last, and what another took longer is what it waited. Clocks of different nodes need
not agree for that. Calls are matched by their order in a group, as PyTorch itself demands it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.base.text import and_list
from course_lib.traces.rank_trace import COMMUNICATION, RankTrace, Work

__all__ = ["Stragglers", "stragglers"]

# Those that no rank can leave before all have come; the root of a broadcast can.
_TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
_Key = tuple[str, str]


@dataclass(frozen=True)
class Stragglers:
    """``waited_us`` by rank, over ``num_calls`` matched calls; ``came_last`` counts them by the rank that came last."""

    num_calls: int
    waited_us: dict[int, float]
    came_last: dict[int, int]
    not_told: str = ""  # why nothing can be said; "" where something is

    @property
    def straggler(self) -> int | None:
        """The rank that waited least; None where nothing was matched."""
        return min(self.waited_us, key=lambda rank: self.waited_us[rank]) if self.num_calls else None


def stragglers(traces: Sequence[RankTrace]) -> Stragglers:
    """Compare the ranks of one job; where nothing can be said, ``not_told`` says why."""
    if len(traces) < 2:
        return Stragglers(0, {}, {}, "one rank alone: give the traces of all ranks to see who waits for whom")
    calls = {trace.rank: _calls(trace) for trace in traces}
    if any((trace.num_groups or 1) > 1 and _has_no_groups(trace) for trace in traces):
        return Stragglers(0, {}, {}, "the traces do not say to which of several groups a call belongs")
    waited = dict.fromkeys(calls, 0.0)
    last = dict.fromkeys(calls, 0)
    num_calls, odd = 0, []
    for key in sorted({key for mine in calls.values() for key in mine}):
        took = {rank: mine[key] for rank, mine in calls.items() if key in mine}
        if len({len(times) for times in took.values()}) > 1 or len(took) < 2:
            odd.append(key[1])
            continue
        for times in zip(*took.values(), strict=True):
            shortest = min(times)
            num_calls += 1
            for rank, time in zip(took, times, strict=True):
                waited[rank] += time - shortest
            last[next(rank for rank, time in zip(took, times, strict=True) if time == shortest)] += 1
    if not num_calls:
        why = "no collective is in the traces of two ranks"
        if odd:
            why = f"the ranks' calls of {and_list(sorted(set(odd)))} do not match in number"
        return Stragglers(0, {}, {}, f"{why}: are these traces of one job, and of the same steps?")
    return Stragglers(num_calls, waited, last)


def _has_no_groups(trace: RankTrace) -> bool:
    return all(not work.group for works in trace.work.values() for work in works if work.kind == COMMUNICATION)


def _calls(trace: RankTrace) -> dict[_Key, list[float]]:
    """Times in us by group and collective, in order."""
    found: dict[_Key, list[float]] = {}
    ordered: list[Work] = sorted(work for works in trace.work.values() for work in works)
    for work in ordered:
        if work.kind == COMMUNICATION and work.collective in _TOGETHER:
            found.setdefault((work.group, work.collective), []).append(work.end_us - work.start_us)
    return found
