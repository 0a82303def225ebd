"""The picture of a token whose experts lie on two nodes: a row for each of them, and a row for each node."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

RED = OKABE_ITO["vermillion"]


def once_a_node() -> Figure:
    """Four rows over the slow link, and two."""
    figure, axes = drawing(8, 4.4)
    word(axes, 19.5, 41.4, "a row for each choice", size=11, weight="bold")
    word(axes, 60.5, 41.4, "a row for each node", size=11, weight="bold")
    for left, is_once in ((1.5, False), (42.5, True)):
        _panel(axes, left, is_once)
    return figure


def _panel(axes: Axes, left: float, is_once: bool) -> None:
    box(axes, left, 18.3, 7, 5.4, "token", colour=OKABE_ITO["purple"], size=10)
    axes.plot([left + 14.5] * 2, [2.5, 36.5], linestyle="--", color=GREY, linewidth=1.2)
    word(axes, left + 14.5, 38.3, "slow link", size=9, color=GREY)
    for node, foot in enumerate((20.0, 3.0)):
        axes.add_patch(Rectangle((left + 19, foot), 17, 15, facecolor=PALE, edgecolor=GREY))
        word(axes, left + 31, foot + 13.2, f"node {node + 1}", size=9, color=GREY)
        for which in range(2):
            y = foot + 7 - 6 * which
            box(axes, left + 26.5, y, 8.6, 4.4, "expert", colour=COLOURS[node], size=9)
            if not is_once:
                arrow(axes, (left + 7.2, 21), (left + 26.2, y + 2.2), linewidth=1.8, color=RED)
            else:
                arrow(axes, (left + 22, foot + 6.2), (left + 26.2, y + 2.2), head=9, linewidth=1.2)
        if is_once:
            arrow(axes, (left + 7.2, 21), (left + 20.4, foot + 6.2), linewidth=2.6, color=RED)
            box(axes, left + 20.4, foot + 4.9, 1.8, 2.6, colour=OKABE_ITO["purple"])
