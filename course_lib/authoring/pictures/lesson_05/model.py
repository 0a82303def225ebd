"""Pictures of part e: a gradient on two ranks, files and the ranks that read them, a weight in two units."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

__all__ = ["clip", "files", "tied"]

RED = OKABE_ITO["vermillion"]
ZERO, ONE = COLOURS[:2]


def clip() -> Figure:
    """A gradient of two parts, the limit as a circle, and the question where the arrow ends."""
    figure, axes = drawing(8, 3.3)
    x, y, limit = 20, 11.5, 9  # the origin, and the length that is allowed
    tip = (x + 23, y + 17)
    axes.add_patch(Circle((x, y), limit, facecolor=PALE, edgecolor=GREY, linestyle="--"))
    word(axes, x - 14.5, y, "the limit", size=10, color=GREY)
    arrow(axes, (x, y), (tip[0], y), color=ZERO, linewidth=4)
    arrow(axes, (tip[0], y), tip, color=ONE, linewidth=4)
    arrow(axes, (x, y), tip, linewidth=2)
    word(axes, x + 17, y - 2.6, "its part on rank 0", size=10)
    word(axes, tip[0] + 1.5, y + 8.5, "its part on rank 1", ha="left", size=10)
    word(axes, x + 6, y + 11.5, "the gradient", weight="bold", size=10)
    word(axes, 70, 9.2, "where does it end,\nafter the team's clip?", size=9.5)
    word(axes, 70, 16, "?", size=26, weight="bold", color=RED)
    return figure


def files() -> Figure:
    """Four files with a quarter of two parameters each, metadata, and three ranks."""
    figure, axes = drawing(8, 3.3)
    word(axes, 17, 31, "written by four ranks", weight="bold", size=10)
    for number in range(4):
        y = 22.5 - 5.6 * number
        box(axes, 6, y, 22, 4.6, colour="white")
        word(axes, 7.2, y + 2.2, f"__{number}_0", ha="left", size=9.5, family="monospace")
        for part, name in enumerate(("a", "b")):
            box(axes, 17 + 5.3 * part, y + 0.8, 4.6, 3, name, colour=COLOURS[number], size=9.5)
    box(axes, 6, 0.9, 22, 3.4, "", colour=PALE, dash="--")
    word(axes, 17, 2.5, ".metadata: what lies where", size=9.5)
    word(axes, 68, 31, "read by three", weight="bold", size=10)
    for number in range(3):
        y = 24 - 8.6 * number
        axes.add_patch(Circle((61, y), 3.4, facecolor="white", edgecolor=INK))
        word(axes, 61, y, f"rank {number}", size=9.5)
        for part, name in enumerate(("a", "b")):
            axes.add_patch(
                Rectangle((67 + 5.8 * part, y - 2), 5.2, 4, facecolor="white", edgecolor=INK, linestyle="--")
            )
            word(axes, 69.6 + 5.8 * part, y - 0.1, name, size=9.5)
    arrow(axes, (31, 15), (55, 15), linewidth=2)
    word(axes, 43, 19, "?", size=26, weight="bold", color=RED)
    return figure


def tied() -> Figure:
    """A transformer in wrappers, one a piece; its first and its last piece hold one matrix."""
    figure, axes = drawing(8, 2.8)
    pieces = ("stem", "block 0", "block 1", "block 2", "block 3", "head")
    for number, name in enumerate(pieces):
        x = 3 + 12.6 * number
        at_end = number in (0, 5)
        box(axes, x, 14.5, 11, 8.5, colour="white", dash="--", edge=GREY)
        box(axes, x + 1.4, 16, 8.2, 5.4, name, colour=COLOURS[3] if at_end else PALE, size=9.5)
        if number:
            arrow(axes, (x - 3, 18.7), (x + 1.4, 18.7), linewidth=1.4)
    word(axes, 40, 25.6, "dashed: a wrapper of its own for each piece", size=9.5, color=GREY)
    box(axes, 32, 2.5, 16, 5, "one matrix", colour=COLOURS[3], size=10)
    arrow(axes, (9, 15.8), (31.6, 5.4), linewidth=1.6)
    arrow(axes, (71, 15.8), (48.4, 5.4), linewidth=1.6)
    word(axes, 40, 11, "?", size=24, weight="bold", color=RED)
    word(axes, 14, 8.2, "looks tokens up", size=9.5)
    word(axes, 66, 8.2, "scores them", size=9.5)
    return figure
