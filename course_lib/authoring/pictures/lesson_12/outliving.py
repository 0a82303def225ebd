"""The picture of part f: a job whose ranks die while they save, and which other ranks go on with; it asks."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

__all__ = ["outlives"]

_LEFT, _STEP = 10.0, 5.4


def _row(axes: Axes, y: float, rank: int, first: int, last: int, left: float) -> None:
    word(axes, left - 1.2, y + 1.4, f"rank {rank}", ha="right", size=9)
    for number in range(first, last + 1):
        x = left + _STEP * (number - first)
        box(axes, x, y, _STEP - 0.7, 2.8, str(number), colour=COLOURS[rank], size=9)


def _question(axes: Axes, x: float, y: float) -> None:
    word(axes, x, y, "?", size=15, weight="bold", color=GREY)


def outlives() -> Figure:
    """Three ranks take six steps and die in their second save; two ranks go on, it is asked from where, on what."""
    figure, axes = drawing(8, 3.6)
    for rank in range(3):
        _row(axes, 30.4 - 3.6 * rank, rank, 1, 6, _LEFT)
    for after, text, colour, hatch in ((3, "whole", COLOURS[2], ""), (6, "half", PALE, "//")):
        x = _LEFT + _STEP * after - 0.35
        axes.plot([x, x], [20.4, 34.0], color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
        box(axes, x - 4.0, 16.4, 8.0, 3.6, text, colour=colour, hatch=hatch, size=9.5)
    death = _LEFT + 6 * _STEP + 2.0
    for rank in range(3):
        word(axes, death, 31.8 - 3.6 * rank, "×", size=18, color=OKABE_ITO["vermillion"], weight="bold")
    _question(axes, _LEFT + 6 * _STEP + 6.2, 18.2)
    word(axes, 61, 26.2, "all ranks die\nwhile they save", size=9.5)
    arrow(axes, (_LEFT + 6 * _STEP, 16.0), (_LEFT + 6 * _STEP + 1.0, 12.0), color=GREY)
    for rank in range(2):
        y = 8.4 - 3.6 * rank
        word(axes, 42.4, y + 1.4, f"rank {rank}", ha="right", size=9)
        for number in range(5):
            box(axes, 43.6 + _STEP * number, y, _STEP - 0.7, 2.8, "?", colour=COLOURS[rank], size=10)
    word(axes, 2.0, 8.2, "two ranks go on:", ha="left", size=9.5)
    word(axes, 2.0, 5.6, "from which step, and with which samples?", ha="left", size=9.5)
    word(axes, 2.0, 18.2, "on the disk:", ha="left", size=9.5)
    return figure
