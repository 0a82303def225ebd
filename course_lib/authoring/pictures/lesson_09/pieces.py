"""Pictures of part b: a matrix that goes to four ranks, and a batch that goes to eight."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, Point, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

__all__ = ["pieces", "windows"]

RED = OKABE_ITO["vermillion"]
DARKER = "#D8D8D8"


def pieces() -> Figure:
    """Block 3 of four; its w_up with a row marked; four ranks in a square of two axes."""
    figure, axes = drawing(8, 3.5)
    for number in range(4):
        y = 7.2 + 4.6 * number
        box(axes, 3, y, 13, 3.8, f"block {number}", colour=DARKER if number == 3 else PALE, size=9.5)
    box(axes, 3, 3.4, 13, 3, "stem", colour="white", size=9.5)
    box(axes, 3, 25.6, 13, 3, "head", colour="white", size=9.5)
    arrow(axes, (16.6, 22.9), (24, 18.5), linewidth=1.6)
    word(axes, 31, 31.6, "its w_up", weight="bold", size=10)
    axes.add_patch(Rectangle((25, 3.4), 12, 25.6, facecolor=PALE, edgecolor=INK))
    marked = 29 - 25.6 * 100 / 256
    axes.add_patch(Rectangle((25, marked - 0.5), 12, 1, facecolor=RED, edgecolor="none"))
    word(axes, 38.2, 28.4, "row 0", ha="left", size=9.5, color=GREY)
    word(axes, 38.2, marked, "row 100", ha="left", size=10, color=RED, weight="bold")
    word(axes, 38.2, 4, "row 255", ha="left", size=9.5, color=GREY)
    arrow(axes, (46.5, marked), (53.5, marked), linewidth=2)
    word(axes, 50, marked + 4, "?", size=26, weight="bold", color=RED)
    _square(axes)
    return figure


def _square(axes: Axes) -> None:
    """Ranks 0 to 3 on dp_shard=2 tp=2."""
    for number in range(4):
        shard, tp = divmod(number, 2)
        x, y = 63 + 9.5 * tp, 20.6 - 9.5 * shard
        axes.add_patch(Circle((x, y), 3.5, facecolor=COLOURS[number], edgecolor=INK, zorder=3))
        word(axes, x, y, f"rank {number}", size=9.5, color="black", zorder=4)
    word(axes, 66.5, 31.6, "Mesh.of(dp_shard=2, tp=2)", weight="bold", size=10)
    arrow(axes, (60, 26.4), (76, 26.4), color=GREY, linewidth=1.2)
    word(axes, 67.7, 28.2, "tp", size=10, color=GREY)
    arrow(axes, (57.6, 23.8), (57.6, 7.6), color=GREY, linewidth=1.2)
    word(axes, 55.8, 9.2, "dp_shard", size=10, color=GREY, rotation=90, va="bottom")


def windows() -> Figure:
    """Eight windows, and eight ranks as the corners of a cube."""
    figure, axes = drawing(8, 3.5)
    word(axes, 17, 31.6, "a batch of eight windows", weight="bold", size=10)
    for number in range(8):
        box(axes, 5, 26.2 - 3.3 * number, 24, 2.7, f"window {number}", colour="white", size=9)
    arrow(axes, (31.5, 16), (41, 16), linewidth=2)
    word(axes, 36, 20, "?", size=26, weight="bold", color=RED)
    word(axes, 61, 31.6, "Mesh.of(pp=2, dp_shard=2, tp=2)", weight="bold", size=10)
    corners = [_corner(rank) for rank in range(8)]
    for rank, corner in enumerate(corners):
        for step in (1, 2, 4):
            if not rank & step:
                dash = "--" if step == 4 else "-"
                arrow(axes, corner, corners[rank + step], style="-", color=GREY, linestyle=dash)
    for rank, (x, y) in enumerate(corners):
        axes.add_patch(Circle((x, y), 2.7, facecolor=PALE, edgecolor=INK, zorder=3))
        word(axes, x, y, str(rank), size=10, color="black", zorder=4)
    word(axes, 56.5, 3.8, "tp", size=10, color=GREY)
    word(axes, 68.6, 7, "pp", size=10, color=GREY)
    word(axes, 44.8, 12, "dp_shard", size=10, color=GREY)
    return figure


def _corner(rank: int) -> Point:
    """tp goes to the right, dp_shard up, and pp to the back."""
    pp, shard, tp = rank >> 2, rank >> 1 & 1, rank & 1
    return 50 + 13 * tp + 7 * pp, 5.5 + 13.5 * shard + 6 * pp
