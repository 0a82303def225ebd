"""Live activations: what a rank must keep for backwards that are still to come. Counting them needs no clock.

A forward begins to keep the activations of its micro-batch on its stage, B or W ends it. I ends it in part at most:
W still needs the inputs of every layer, so the count stands until W has run.
"""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.parallel.pipeline.schedule import Action, Schedule

__all__ = ["live_activations", "peak_live", "peak_live_by_stage"]


def live_activations(schedule: Schedule) -> tuple[tuple[int, ...], ...]:
    """For each rank how many activations are live while each action of ``schedule.rows`` runs.

    One activation is one micro-batch on one stage; all stages of the rank are counted together. A schedule without
    backwards keeps none.
    """
    keeps = any(action.kind != "F" for _, _, action in schedule.cells)
    return tuple(_while(row if keeps else ()) for row in schedule.rows)


def peak_live(schedule: Schedule) -> tuple[int, ...]:
    """For each rank the most activations that it holds at a time."""
    return tuple(max(counts, default=0) for counts in live_activations(schedule))


def peak_live_by_stage(schedule: Schedule) -> tuple[int, ...]:
    """For each stage the most activations that it holds at a time."""
    peaks = []
    for stage, rank in enumerate(schedule.rank_of_stage):
        mine = [action for action in schedule.rows[rank] if action.stage == stage]
        keeps = any(action.kind != "F" for action in mine)
        peaks.append(max(_while(mine), default=0) if keeps else 0)
    return tuple(peaks)


def _while(row: Sequence[Action]) -> tuple[int, ...]:
    """The count during each action: up when a forward starts, down after B or W."""
    counts, live = [], 0
    for action in row:
        live += action.kind == "F"
        counts.append(live)
        live -= action.kind in ("B", "W")
    return tuple(counts)
