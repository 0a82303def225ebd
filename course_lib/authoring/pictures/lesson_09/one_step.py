"""The picture of part e: one training step on four ranks, and what it asks."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

__all__ = ["one_step"]

_RED = OKABE_ITO["vermillion"]


def _question(axes: Axes, x: float, y: float) -> None:
    word(axes, x, y, "?", size=15, weight="bold", color=_RED)


def one_step() -> Figure:
    """Two stages by two slices between a batch and a folder; questions where a learner has to decide."""
    figure, axes = drawing(8.6, 4.0)
    word(axes, 9, 37.2, "a batch", weight="bold")
    for row in range(6):
        box(axes, 3, 31.6 - 4 * row, 12, 3.0, colour=PALE)
    word(axes, 9, 7.6, "whose rows?", size=9.5)
    arrow(axes, (16, 22), (26, 22), color=GREY)
    _question(axes, 20.6, 25)
    for number, (x, y) in enumerate(((28, 24), (28, 12), (50, 24), (50, 12))):
        box(axes, x, y, 11, 7, f"rank {number}", colour=COLOURS[number], size=10)
    for column, x in ((0, 33.5), (1, 55.5)):
        word(axes, x, 33.4, f"stage {column}", size=10)
        arrow(axes, (x, 19.4), (x, 23.6), style="<|-|>", color=INK)
        _question(axes, x + 2.6, 21.4)
    for y in (27.5, 15.5):
        arrow(axes, (39.4, y), (49.6, y), style="<|-|>", color=INK)
        _question(axes, 44.5, y + 2.2)
    word(axes, 44.5, 37.2, "one step", weight="bold")
    box(axes, 28, 4.4, 33, 4.4, "one norm: who counts what?", colour="white", size=10)
    for x in (33.5, 55.5):
        arrow(axes, (x, 11.6), (x, 9.2), color=GREY)
    word(axes, 76, 37.2, "a folder", weight="bold")
    box(axes, 69, 15, 14, 16, "?", colour=PALE, size=18)
    arrow(axes, (61.6, 22), (68.4, 22), color=GREY)
    word(axes, 76, 12.4, "which mesh", size=9.5)
    word(axes, 76, 9.8, "can read it?", size=9.5)
    return figure
