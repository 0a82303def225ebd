"""A pipeline over time: a row for each rank, a box for each action; predicted above and measured below, if both are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from course_lib.meter.units import time_text
from course_lib.plot.raster import Raster, Sheet
from course_lib.plot.style import OKABE_ITO, Look
from course_lib.schedules.action import KINDS, Action
from course_lib.schedules.table import Schedule
from course_lib.schedules.trace import ActionSpan, ScheduleTrace

__all__ = ["pipeline_gantt"]

_LOOKS = {
    "F": Look(OKABE_ITO["blue"], "", "F"),
    "B": Look(OKABE_ITO["orange"], "/", "B"),
    "I": Look(OKABE_ITO["purple"], "/", "I"),
    "W": Look(OKABE_ITO["green"], "\\", "W"),
}
_LATER_STAGE = {  # the stages after a rank's first, lighter
    "F": Look(OKABE_ITO["sky blue"], "", "F"),
    "B": Look("#F5CF80", "/", "B"),
    "I": Look("#E6BCD3", "/", "I"),
    "W": Look("#7FCDB5", "\\", "W"),
}
_WIDTH, _LEFT, _RIGHT, _TOP, _FOOT = 800, 92, 12, 30, 56  # pixels
_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def pipeline_gantt(
    predicted: ScheduleTrace | None = None,
    measured: ScheduleTrace | None = None,
    *,
    title: str = "",
    alt: str | None = None,
) -> Raster:
    """Boxes of all actions, with their micro-batch's number; idle time is white.

    With both, each rank has two rows on the same axis: what was predicted, and below it what was run. Later stages of
    a rank are lighter; two actions that overlap share the height. The alt text is made from the spans unless given.
    ValueError where there is nothing to draw.
    """
    named = {"predicted": predicted, "measured": measured}
    runs = {name: run for name, run in named.items() if run is not None}
    if not runs:
        raise ValueError("There is nothing to draw; give what was predicted, what was measured, or both.")
    schedule = next(iter(runs.values())).schedule
    end_s = max(run.makespan_s for run in runs.values()) or 1e-9
    row, gap = (22, 10) if len(runs) == 1 else (17, 12)
    num_ranks = schedule.num_ranks
    rank_height = row * len(runs) + gap
    bottom = _TOP + num_ranks * rank_height
    sheet = Sheet(_WIDTH, bottom + _FOOT)
    sheet.text(_LEFT, 14, title or schedule.name, size=10, bold=True)
    scale = (_WIDTH - _LEFT - _RIGHT) / end_s
    _axis(sheet, end_s, scale, bottom)
    for rank in range(num_ranks):
        top = _TOP + rank * rank_height
        sheet.text(8, top + rank_height / 2 - gap / 2, f"rank {rank}")
        for place, run in enumerate(runs.values()):
            y = top + place * row
            if len(runs) > 1:
                sheet.text(_LEFT - 6, y + row / 2, ("plan", "run")[place], size=8, anchor="rm")
            _row(sheet, run, rank, y, y + row - 1, scale)
    _key(sheet, schedule, bottom + 42)
    return Raster(sheet.image, alt if alt is not None else _words(schedule, runs))


def _row(sheet: Sheet, run: ScheduleTrace, rank: int, top: float, bottom: float, scale: float) -> None:
    zero_s = min((row[0].start_s for row in run.rows if row), default=0.0)
    first = min(run.schedule.stages_of_rank[rank], default=0)
    middle = (top + bottom) / 2
    for (_, action, start_s, end_s), part in zip(run.rows[rank], _parts(run.rows[rank]), strict=True):
        look = (_LOOKS if action.stage == first else _LATER_STAGE)[action.kind]
        left, right = (_LEFT + (moment_s - zero_s) * scale for moment_s in (start_s, end_s))
        above, below = {"upper": (top, middle), "lower": (middle, bottom)}.get(part, (top, bottom))
        sheet.box(left, above, right, below, look, _text(action, right - left))


def _parts(row: Sequence[ActionSpan]) -> list[str]:
    """For each span the part of the row's height that it takes: of two that overlap the forward is above."""
    parts = ["all"] * len(row)
    for place, (earlier, later) in enumerate(pairwise(row)):
        shared_s = min(earlier.end_s, later.end_s) - later.start_s
        if shared_s > 0.01 * (later.end_s - later.start_s):  # not by a rounding error
            parts[place : place + 2] = ["upper", "lower"]
    return parts


def _text(action: Action, width: float) -> str:
    """As much as there is room for: letter and number, the number, nothing."""
    return action.short if width > 8 * len(action.short) + 2 else str(action.micro_batch)


def _axis(sheet: Sheet, end_s: float, scale: float, bottom: float) -> None:
    size_s, unit = next((pair for pair in _SCALES if end_s >= pair[0]), _SCALES[-1])
    step = _round_step(end_s / size_s / 6)
    for tick in range(math.floor(end_s / size_s / step) + 1):
        x = _LEFT + tick * step * size_s * scale
        sheet.line(x, _TOP - 4, x, bottom)
        sheet.text(x, bottom + 9, f"{tick * step:g}", size=9, anchor="mm")
    sheet.line(_LEFT, bottom, _WIDTH - _RIGHT, bottom, colour="black")
    sheet.text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 24, f"time ({unit})", size=9, anchor="mm")


def _round_step(value: float) -> float:
    """The next larger of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def _key(sheet: Sheet, schedule: Schedule, y: float) -> None:
    kinds = {action.kind for _, _, action in schedule.cells}
    x = float(_LEFT)
    for kind, look in _LOOKS.items():
        if kind in kinds:
            sheet.box(x, y - 7, x + 22, y + 7, look, kind)
            x += 28 + sheet.text(x + 28, y, KINDS[kind], size=9) + 18
    if not schedule.has_one_stage_a_rank:
        sheet.text(x, y, "lighter: a rank's later stages", size=9)


def _words(schedule: Schedule, runs: Mapping[str, ScheduleTrace]) -> str:
    p, m = schedule.num_ranks, schedule.num_micro_batches
    size = f"{p} rank{'s' * (p > 1)} and {m} micro-batch{'es' * (m > 1)}"
    times = [f"{time_text(run.makespan_s)} {name}, {run.idle_share:.0%} of it idle" for name, run in runs.items()]
    first, run = next(iter(runs.items()))
    waits = ", ".join(time_text(_longest_wait(row)) for row in run.rows)
    return f"{schedule.name} with {size}: {'; '.join(times)}. Longest wait by rank, {first}: {waits}."


def _longest_wait(row: Sequence[ActionSpan]) -> float:
    return max((later.start_s - before.end_s for before, later in pairwise(row)), default=0.0)
