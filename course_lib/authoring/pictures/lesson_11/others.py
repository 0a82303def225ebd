"""Pictures of part d: how a run is replayed, what a bill counts, and NVLink domains of two sizes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO
from course_lib.plot.style import line_colour

BLUE, RED = OKABE_ITO["blue"], OKABE_ITO["vermillion"]


def replay() -> Figure:
    """What is published of a run goes two ways: its sizes to the planner, its time to the comparison."""
    figure, axes = drawing(8, 2.8)
    box(axes, 1.5, 8, 17, 18, "", colour=PALE)
    word(axes, 10, 23.3, "a published run", size=11, weight="bold")
    for place, text in enumerate(("model, batch", "GPUs, links", "layout", "seconds a step")):
        colour = COLOURS[1] if place == 3 else COLOURS[0]
        box(axes, 3, 18.4 - 3.2 * place, 14, 2.8, text, colour=colour, size=9.5)
    box(axes, 28, 19, 19.5, 7, "the planner:\n8 constants of a cluster", colour=BLUE, ink="white", size=10)
    box(axes, 28, 10.2, 19.5, 6, "one share of the peak\nfor every run", colour="white", size=10)
    for height in (22.5, 13.2):
        arrow(axes, (18.8, 16.2), (27.6, height), color=GREY)
    box(axes, 58, 19.8, 8, 5.4, "seconds", colour=COLOURS[0], size=10)
    box(axes, 58, 10.5, 8, 5.4, "seconds", colour=COLOURS[0], size=10)
    for height in (22.5, 13.2):
        arrow(axes, (47.9, height), (57.6, height))
        arrow(axes, (66.4, height), (71.8, 17.2 if height < 16 else 18.6))
    word(axes, 75.4, 17.9, "how far\noff?", size=11, weight="bold")
    axes.plot((10, 10, 75.4), (7.7, 4.6, 4.6), color=line_colour(COLOURS[1]), linewidth=1.8)
    arrow(axes, (75.4, 4.5), (75.4, 14.6), color=COLOURS[1], linewidth=1.8)
    word(axes, 42, 2.6, "what was measured", size=9.5, color=GREY)
    return figure


def bill() -> Figure:
    """Time to the right, GPUs upwards: what is paid for is the area."""
    figure, axes = drawing(8, 3.4)
    axes.plot((6, 6), (4, 31), color=INK, linewidth=1)
    axes.plot((6, 77), (4, 4), color=INK, linewidth=1)
    word(axes, 3, 17, "GPUs", size=10, rotation=90)
    word(axes, 70, 1.9, "time of a step", size=10)
    _rows(axes, 7, 1, 28, "1 GPU", "the bill: 1 GPU × 28")
    _rows(axes, 40, 4, 7, "4 GPUs, if\nnothing is lost", "the same area:\n4 GPUs × 7")
    _rows(axes, 63, 4, 7, "4 GPUs, as\nthey run", "")
    axes.add_patch(Rectangle((70.2, 5), 5.5, 19.4, facecolor="white", edgecolor=RED, linestyle="--", linewidth=1.6))
    word(axes, 73, 14.6, "?", size=20, color=RED, weight="bold")
    return figure


def _rows(axes: Axes, x: float, gpus: int, wide: float, title: str, below: str) -> None:
    """A step as a rectangle of GPUs and time."""
    for gpu in range(gpus):
        box(axes, x, 5 + 4.9 * gpu, wide, 4.6, colour=COLOURS[gpu])
    word(axes, x + wide / 2, 8 + 4.9 * gpus, title, size=10, weight="bold")
    if below and gpus == 1:
        word(axes, x + wide / 2, 7.3, below, size=10)
    elif below:
        word(axes, x + wide + 6.6, 14.6, below, size=9.5, color=GREY)


def domains() -> Figure:
    """72 GPUs: nine machines of eight, and one NVLink domain of all."""
    figure, axes = drawing(8, 3.6)
    word(axes, 19.5, 33.6, "nine NVLink domains of 8", size=11, weight="bold")
    word(axes, 60, 33.6, "one NVLink domain of 72", size=11, weight="bold")
    for node in range(9):
        x, y = 3.0 + 12 * (node % 3), 23.2 - 8.6 * (node // 3)
        axes.add_patch(Rectangle((x, y), 9.6, 6.6, facecolor=PALE, edgecolor=BLUE, linewidth=2))
        for gpu in range(8):
            _gpu(axes, x + 0.9 + 2.05 * (gpu % 4), y + 0.8 + 2.8 * (gpu // 4), COLOURS[0])
    for gap in (13.8, 25.8):
        for row in (26.5, 17.9, 9.3):
            axes.plot((gap - 1.1, gap + 1.1), (row, row), color=RED, linewidth=1)
    for row in (22.5, 13.9):
        for middle in (7.8, 19.8, 31.8):
            axes.plot((middle, middle), (row - 0.9, row + 0.7), color=RED, linewidth=1)
    word(axes, 19.8, 2.8, "between them a network (red)", size=9.5, color=RED)
    axes.add_patch(Rectangle((43, 6), 34, 23.8, facecolor=PALE, edgecolor=BLUE, linewidth=2))
    for gpu in range(72):
        _gpu(axes, 45.2 + 2.55 * (gpu % 12), 8.2 + 3.5 * (gpu // 12), COLOURS[0])
    word(axes, 60, 2.8, "NVLink from each to each (blue)", size=9.5, color=BLUE)
    return figure


def _gpu(axes: Axes, x: float, y: float, colour: str) -> None:
    axes.add_patch(Rectangle((x, y), 1.6, 2.1, facecolor=colour, edgecolor=INK, linewidth=0.7))
