"""Pictures of schedules in time: every box stands where the simulator puts it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib import Cluster, schedules
from course_lib.authoring.pictures.cut_model import LOOKS, RIGHT, WHITE, arrow
from course_lib.authoring.pictures.sketch import GREY, INK, drawing, word
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.layouts.link import Link
from course_lib.parallel import pipeline
from course_lib.plot import pipeline_gantt
from course_lib.schedules import StageTimes

Times: TypeAlias = StageTimes | Sequence[StageTimes]  # of all stages, or of each
EQUAL = StageTimes.of(1.0)


def boxes(
    axes: Axes, schedule: schedules.Schedule, x: float, y: float, unit: float, *, times: Times = EQUAL,
    link: Link | None = None, high: float = 3.2, gap: float = 0.8, text: bool = True, ranks: bool = True,
) -> float:  # fmt: skip
    """The actions of a schedule, rank 0 on top at ``y``; ``unit`` is how wide a forward is. Returns the right end."""
    run = simulate(schedule, times, link=link or Link())
    for span in run.spans:
        colour, hatch = LOOKS[span.action.kind]
        bottom, wide = y - span.rank * (high + gap), (span.end_s - span.start_s) * unit
        left = x + span.start_s * unit
        axes.add_patch(
            Rectangle((left, bottom), wide, high, facecolor=colour, hatch=hatch, edgecolor=INK, linewidth=0.7)
        )
        if text:
            ground = {"facecolor": colour, "edgecolor": "none", "pad": 0.6} if hatch else None
            word(axes, left + wide / 2, bottom + high / 2 - 0.1, str(span.action.micro_batch), size=9,
                 color="black", bbox=ground)  # fmt: skip
    for rank in range(schedule.num_ranks if ranks else 0):
        word(axes, x - 1, y - rank * (high + gap) + high / 2, f"rank {rank}", size=9.5, ha="right")
    return x + run.makespan_s * unit


def time_axis(axes: Axes, x: float, y: float) -> None:
    """The word that says where time goes."""
    word(axes, x, y, "time →", size=9, color=GREY, ha="right")


def staircase() -> Figure:
    """One batch through four stages."""
    figure, axes = drawing(8, 2.3)
    end = boxes(axes, schedules.naive(4), 9, 18, 5.6, text=False)
    word(axes, 9 + 2.8, 19.5, "forward", size=8)
    word(axes, end - 5.6, 19.5, "backward", size=8, bbox={**WHITE, "facecolor": RIGHT})
    time_axis(axes, end, 2.4)
    return figure


def formula() -> Figure:
    """Where m and p - 1 can be read off."""
    figure, axes = drawing(8, 3.0)
    schedule, unit = schedules.gpipe(4, 6), 2.45
    end = boxes(axes, schedule, 9, 22, unit)
    for left, right, text in ((9, 9 + 3 * unit, "fill"), (end - 6 * unit, end, "empty")):
        word(axes, (left + right) / 2, 6.9, text, size=9.5, color=INK)
        arrow(axes, (left, 8.3), (right, 8.3), style="<|-|>", head=9)
    word(
        axes,
        (9 + end) / 2 - 2,
        3.9,
        "fill + empty = p - 1 moments of waiting; each rank works m moments",
        size=10,
    )
    time_axis(axes, end, 27.4)
    return figure


def wrong() -> Figure:
    """Three pipelines in small, each with other boxes than those that the formula was derived from."""
    figure, axes = drawing(8, 3.6)
    slow = [EQUAL, StageTimes.of(2.0), EQUAL, EQUAL]
    rows = (
        ("longer backwards", schedules.one_f_one_b(4, 4), StageTimes.of(1.0, 3.0), 0.0, 1.2),
        ("one slow stage", schedules.one_f_one_b(4, 4), slow, 0.0, 1.02),
        ("messages take time", schedules.one_f_one_b(4, 4), EQUAL, 0.6, 1.16),
    )
    for number, (name, schedule, times, latency_s, unit) in enumerate(rows):
        x, y = ((4, 29), (43, 29), (23.5, 12))[number]
        word(axes, x + 17, y + 4.6, name, size=10)
        boxes(axes, schedule, x, y, unit, times=times, link=Link(latency_s, float("inf")), high=2.4, gap=0.5,
              text=False, ranks=False)  # fmt: skip
    return figure


def studio() -> bytes:
    """A planned and a measured pipeline, as the studio shows them."""
    schedule, times = schedules.one_f_one_b(4, 6), StageTimes.of(0.020)
    with Cluster(4) as ranks:
        measured = pipeline.run_pipeline(ranks, schedule, times)
    return pipeline_gantt(simulate(schedule, times), measured, title="1F1B").png()


def held() -> Figure:
    """One micro-batch on four ranks, and how long rank 0 holds its activations."""
    figure, axes = drawing(8, 2.7)
    unit = 7.2
    end = boxes(axes, schedules.list_schedule([EQUAL] * 4, 1, 1), 9, 17.5, unit, text=False)
    for left, kind in ((9, "F"), (end - 2 * unit, "I"), (end - unit, "W")):
        word(axes, left + unit / 2, 19.1, kind, size=10, color="black", bbox=WHITE)
    arrow(axes, (9, 23.2), (end, 23.2), style="<|-|>", head=9)
    word(axes, (9 + end) / 2, 24.9, "rank 0 holds this micro-batch", size=10)
    time_axis(axes, end, 1.6)
    return figure
