"""Pictures of part d: which cut first, eight ranks with a batch, and a matrix in strips."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, INK, PALE, arrow, box, drawing, word
from course_lib.layouts.mesh import Mesh
from course_lib.plot import OKABE_ITO

__all__ = ["assembled", "first_cut", "strips"]

BLUE, ORANGE, GREEN, RED = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "vermillion"))


def first_cut() -> Figure:
    """A matrix, and two cuts that wait: into slices, and into rows."""
    figure, axes = drawing(8, 3.1)
    box(axes, 31, 6, 18, 18, "a matrix\nof a layer", colour=PALE, size=10)
    for left, axis, cuts, colour, hatch in (
        (3, "tp", "slices", BLUE, ""),
        (59, "dp_shard", "rows", ORANGE, "//"),
    ):
        word(axes, left + 9, 27.6, axis, weight="bold", size=11)
        for half in range(2):
            box(
                axes,
                left + 1,
                15.6 - 9.6 * half,
                16,
                8.4,
                f"{cuts} of place {half}",
                colour=colour,
                hatch=hatch,
            )
    for start, end in (((21.5, 15), (29.5, 15)), ((58.5, 15), (50.5, 15))):
        arrow(axes, start, end, linewidth=2, head=16)
    word(axes, 25.5, 18, "first?", size=10)
    word(axes, 54.5, 18, "first?", size=10)
    word(axes, 40, 2.6, "what is left for the second one?", size=10, color=GREY)
    return figure


def assembled() -> Figure:
    """Eight ranks as corners of a cube, an axis for each cut, and the rows of a batch: whose are they?"""
    figure, axes = drawing(8.4, 4.4)
    mesh, places = Mesh.of(pp=2, dp_shard=2, tp=2), dict[int, tuple[float, float]]()
    for number in range(8):
        here = mesh.coordinates(number)
        places[number] = (38 + 27 * here["pp"] + 9 * here["tp"], 30 - 17 * here["dp_shard"] + 7 * here["tp"])
    for axis, colour, dash in (("tp", BLUE, "-"), ("dp_shard", ORANGE, "--"), ("pp", GREEN, ":")):
        for group in mesh.groups(axis):
            arrow(axes, *(places[one] for one in group), style="-", color=colour, linewidth=2.6, linestyle=dash)
    for number, (x, y) in places.items():
        box(axes, x - 3.4, y - 1.9, 6.8, 3.8, f"rank {number}", colour="white", size=9)
    for height, axis, colour, dash in (
        (8.2, "pp", GREEN, ":"),
        (5.2, "dp_shard", ORANGE, "--"),
        (2.2, "tp", BLUE, "-"),
    ):
        arrow(axes, (46, height), (53, height), style="-", color=colour, linewidth=2.6, linestyle=dash)
        word(axes, 55, height, axis, ha="left")
    word(axes, 11, 40.6, "a batch", weight="bold")
    for row in range(8):
        box(axes, 4, 35 - 3.4 * row, 14, 2.6, colour=PALE, edge=INK)
    for begin, end in ((31, 32), (24, 26), (17, 19), (11, 13)):
        arrow(axes, (19.5, begin), (31, end), color=GREY)
        word(axes, 25, (begin + end) / 2 + 1.9, "?", size=12, weight="bold", color=RED)
    return figure


def strips() -> Figure:
    """A matrix of 256 rows in four strips without owners, and four ranks by their places."""
    figure, axes = drawing(8, 3.2)
    word(axes, 20, 29.6, "w_up (256, 64)", weight="bold")
    for strip in range(4):
        y = 21.4 - 6 * strip
        box(axes, 12, y, 16, 5.4, "?", colour=PALE, size=12)
        word(axes, 10.6, y + 2.7, f"rows {64 * strip} to {64 * strip + 63}", ha="right", size=9)
    mesh = Mesh.of(dp_shard=2, tp=2)
    word(axes, 57, 29.6, "dp_shard=2 tp=2", weight="bold")
    for number in range(4):
        here = mesh.coordinates(number)
        x, y = 45 + 16 * here["tp"], 16 - 11 * here["dp_shard"]
        box(axes, x, y, 11, 6.4, f"rank {number}", colour=BLUE if number == 1 else "white", size=10)
    for place in range(2):
        word(axes, 50.5 + 16 * place, 25.4, f"tp {place}", size=10)
        word(axes, 43.4, 19.2 - 11 * place, f"dp_shard {place}", ha="right", size=10)
    return figure
