"""Pictures of part b: an order of axes, stages of one model, and the whole course on a sheet."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, INK, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

__all__ = ["cuts", "order", "stages"]

BLUE, ORANGE, GREEN, RED, YELLOW, PURPLE = (
    OKABE_ITO[name] for name in ("sky blue", "orange", "green", "vermillion", "yellow", "purple")
)


def _nodes(axes: Axes, left: float, title: str, inside: str, across: str) -> None:
    """Two nodes of two ranks: the last axis of a mesh lies within a node."""
    word(axes, left + 16, 29.4, title, weight="bold", size=11, family="monospace")
    for node in range(2):
        x = left + 20 * node
        box(axes, x, 4, 12, 21, colour=PALE, edge=GREY)
        arrow(axes, (x + 6, 18.5), (x + 6, 10.5), style="-", linewidth=7, color=BLUE, zorder=1)
        for place in range(2):
            rank(axes, x + 6, 20 - 11.5 * place, 2 * node + place, radius=3.0)
        ground = {"facecolor": PALE, "edgecolor": "none", "pad": 1.2}
        word(axes, x + 6, 14.3, inside, size=10, zorder=5, bbox=ground)
    for y in (20.0, 8.5):
        arrow(axes, (left + 9, y), (left + 23, y), style="-", linewidth=1.3, color=RED, linestyle="--", zorder=1)
    word(axes, left + 16, 14.3, across, size=10, color=INK)


def order() -> Figure:
    """The same two axes in two orders: which of them passes between nodes."""
    figure, axes = drawing(8.6, 3.2)
    _nodes(axes, 4, "a=2 b=2", "b", "a")
    _nodes(axes, 49, "b=2 a=2", "a", "b")
    arrow(axes, (43, 3), (43, 29), style="-", linewidth=0.8, color=GREY)
    return figure


_PIECES = (("in", 5.6, 0.0), ("block 0", 22.0, 22.0), ("block 1", 22.0, 22.0), ("out", 5.6, 0.0))


def stages() -> Figure:
    """Pieces of a model as wide as what they hold, and again as what they take; and stages that nobody has filled."""
    figure, axes = drawing(8.6, 3.6)
    left = 22.0
    for row, title, holds in ((26.4, "what each\nholds", True), (15.2, "how long\neach takes", False)):
        word(axes, left - 2, row + 2.6, title, ha="right", size=10)
        x = left
        for name, held, takes in _PIECES:
            wide, is_block = held if holds else takes, name.startswith("block")
            if wide:
                colour, hatch = (BLUE, "") if is_block else (ORANGE, "//")
                box(axes, x, row, wide, 5.4, name, colour=colour, hatch=hatch)
            else:
                arrow(axes, (x, row - 0.6), (x, row + 6.0), style="-", linewidth=3, color=ORANGE)
                word(axes, x, row + 7.2, name, size=9)
            x += wide
    word(axes, left - 2, 5.6, "stages:\nwhat to put where?", ha="right", size=10)
    for stage in range(4):
        box(axes, left + 14.2 * stage, 3.0, 12.6, 5.4, "?", colour="white", edge=GREY)
    return figure


_CUTS = (
    ("the batch", "data parallel", "03 04", "gradients, once a step", BLUE, ""),
    ("states", "sharded", "05", "weights, and gradients", GREEN, "\\\\"),
    ("layers", "pipeline", "06 07", "activations of a cut", ORANGE, "//"),
    ("matrices", "tensor parallel", "08", "sums, in every layer", RED, ".."),
    ("the sequence", "context parallel", "10", "keys and values", YELLOW, ""),
    ("experts", "expert parallel", "10", "tokens, there and back", PURPLE, "xx"),
)


def cuts() -> Figure:
    """Six things that can be cut: the cut's name, its lesson, and what is sent because of it."""
    figure, axes = drawing(9.4, 4.0)
    wide, high = 27.6, 14.6
    for place, (what, name, lessons, travels, colour, hatch) in enumerate(_CUTS):
        x, y = 3.0 + 30.4 * (place % 3), 22.4 - 18.4 * (place // 3)
        box(axes, x, y, wide, high, colour="white", edge=GREY)
        for half in range(2):  # what is cut, in two
            box(axes, x + 1.6 + 4.4 * half, y + 7.6, 3.6, 5.2, colour=colour, hatch=hatch)
        word(axes, x + 11.4, y + 11.6, what, ha="left", size=11.5, weight="bold")
        word(axes, x + 11.4, y + 8.4, f"{name} · {lessons}", ha="left", size=8.6)
        word(axes, x + 1.6, y + 3.2, f"travels: {travels}", ha="left", size=9.2)
    return figure
