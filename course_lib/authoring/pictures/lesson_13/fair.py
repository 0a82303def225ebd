"""Picture of part d: the stations of a fair trial, and its three ways out."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

_STATIONS = (
    ("a sentence", "that a run\ncan contradict"),
    ("a bound", "fixed before\nthe run"),
    ("a control", "all alike but\none thing"),
    ("pairs", "one right after\nthe other"),
)


def fair() -> Figure:
    """Four boxes in a row; below them three middle halves against a bound, and what each of them says."""
    figure, axes = drawing(8, 4.2)
    for place, (name, told) in enumerate(_STATIONS):
        x = 2 + 20 * place
        box(axes, x, 32, 15.5, 6, name, colour=COLOURS[0], size=12)
        word(axes, x + 7.75, 28.6, told, size=9.5)
        if place:
            arrow(axes, (x - 4.1, 35), (x - 0.4, 35))
    axes.add_patch(Rectangle((33, 3.4), 15, 20, facecolor=PALE, edgecolor=GREY, linestyle="--"))
    word(axes, 40.5, 24.8, "within the bounds", size=10, color=GREY)
    word(axes, 13, 21.6, "the middle half\nof the ratios", size=10.5, weight="bold")
    green, red = OKABE_ITO["green"], OKABE_ITO["vermillion"]
    _half(axes, 19, 36.5, 45, green, "holds")
    _half(axes, 13.5, 51, 58, red, "false")
    _half(axes, 8, 43, 55, GREY, "cannot tell here")
    word(axes, 13, 5.2, "several sizes, and they\ndo not agree: it holds\nwith conditions", size=9.5, color=INK)
    return figure


def _half(axes: Axes, y: float, left: float, right: float, colour: str, said: str) -> None:
    """A middle half as a thick bar with its median, thin lines to the rest of the ratios, and the verdict."""
    wide = right - left
    axes.plot((left - wide / 2, right + wide / 2), (y, y), color=colour, linewidth=1)
    axes.add_patch(Rectangle((left, y - 1.2), wide, 2.4, facecolor=colour, edgecolor=INK, linewidth=0.8))
    axes.plot(((left + right) / 2,) * 2, (y - 1.2, y + 1.2), color="white", linewidth=2)
    word(axes, 65.5, y, said, size=11, weight="bold", ha="left", color=colour)
