"""Micro-batches in flight: those whose activations a rank must keep, for backwards that are still to come.

Counting them needs no clock. Some texts call them live activations.

A forward begins to keep the activations of its micro-batch on its stage, B or W ends it. I ends it in part at most:
W still needs the inputs of every layer, so the count stands until W has run.
"""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.base.checked import checked
from course_lib.schedules.action import Action
from course_lib.schedules.table import Schedule

__all__ = ["in_flight_counts", "peak_in_flight", "peak_in_flight_by_stage"]


@checked
def in_flight_counts(schedule: Schedule) -> tuple[tuple[int, ...], ...]:
    """For each rank how many micro-batches are in flight while each action of ``schedule.rows`` runs.

    A micro-batch counts once for each stage on which it is; all stages of the rank are counted together. A schedule
    without backwards keeps none.
    """
    keeps = any(action.kind != "F" for _, _, action in schedule.cells)
    return tuple(_while(row if keeps else ()) for row in schedule.rows)


@checked
def peak_in_flight(schedule: Schedule) -> tuple[int, ...]:
    """For each rank the most micro-batches that it has in flight at a time."""
    return tuple(max(counts, default=0) for counts in in_flight_counts(schedule))


@checked
def peak_in_flight_by_stage(schedule: Schedule) -> tuple[int, ...]:
    """For each stage the most micro-batches that it has in flight at a time."""
    peaks = []
    for stage, rank in enumerate(schedule.rank_of_stage):
        mine = [action for action in schedule.rows[rank] if action.stage == stage]
        keeps = any(action.kind != "F" for action in mine)
        peaks.append(max(_while(mine), default=0) if keeps else 0)
    return tuple(peaks)


def _while(row: Sequence[Action]) -> tuple[int, ...]:
    """The count during each action: up when a forward starts, down after B or W."""
    counts, in_flight = [], 0
    for action in row:
        in_flight += action.kind == "F"
        counts.append(in_flight)
        in_flight -= action.kind in ("B", "W")
    return tuple(counts)
