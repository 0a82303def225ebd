"""A picture of wrong numbers: where in a step of data parallelism one rank can be wrong."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

_BLUE, _GREEN = OKABE_ITO["sky blue"], OKABE_ITO["green"]
_RANKS = 3


def wrong() -> Figure:
    """Gradients of three ranks, one all-reduce, three copies of the weights; a cross at two places of rank 2."""
    figure, axes = drawing(8, 3.2)
    for rank in range(_RANKS):
        x = 16.0 + 17.0 * rank
        word(axes, x + 6.5, 30.4, f"rank {rank}", size=10, weight="bold")
        box(axes, x, 22.6, 13.0, 5.2, "gradient", colour=_BLUE, size=10)
        arrow(axes, (x + 6.5, 22.2), (x + 6.5, 18.4), color=GREY)
        arrow(axes, (x + 6.5, 12.8), (x + 6.5, 9.0), color=GREY)
        box(axes, x, 3.2, 13.0, 5.2, "weights", colour=_GREEN, size=10)
    box(axes, 16.0, 13.2, 47.0, 4.8, "all-reduce: one mean for all", colour=PALE, size=10)
    for y, place in ((25.2, "before"), (5.8, "after")):
        word(axes, 66.0, y, "×", size=22, color=OKABE_ITO["vermillion"], weight="bold")
        word(axes, 68.6, y, place, ha="left", size=10)
    return figure
