"""Pictures of part c: who holds what of two gradients, a folder for all meshes, and a mesh that was turned around."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

__all__ = ["counted", "folder", "turned"]

RED = OKABE_ITO["vermillion"]


def counted() -> Figure:
    """The ranks of dp_shard=2 tp=2, each with a quarter of a matrix and half of a vector: which of them count."""
    figure, axes = drawing(8, 3.9)
    for number in range(4):
        shard, column = divmod(number, 2)
        x, y = 15 + 34 * column, 19.4 - 15.6 * shard
        rank(axes, x, y + 5, number)
        for part in range(4):
            row, place = divmod(part, 2)
            _cell(axes, x + 6 + 5 * place, y + 5 - 5 * row, 5, 5, COLOURS[number] if part == number else "white")
        for row in range(2):
            _cell(axes, x + 20.4, y + 5 - 5 * row, 3, 5, COLOURS[number] if row == shard else "white")
        word(axes, x + 26, y + (7.5 if shard == 0 else 2.5), "?", size=16, weight="bold", color=RED)
    for column in range(2):
        x = 15 + 34 * column
        word(axes, x + 11, 31.6, "a matrix", size=9.5)
        word(axes, x + 22, 31.6, "a vector", size=9.5)
        word(axes, x + 11, 36.4, f"tp {column}", size=10, weight="bold", color=GREY)
        word(axes, 5.4, 24.4 - 15.6 * column, f"dp_shard {column}", size=10, weight="bold", color=GREY)
    word(axes, 40, 1.2, "coloured: what this rank holds", size=9, color=GREY)
    return figure


def _cell(axes: Axes, x: float, y: float, wide: float, high: float, colour: str) -> None:
    dash = "-" if colour != "white" else ":"
    box(axes, x, y, wide, high, colour=colour, edge=INK if colour != "white" else "#BBBBBB", dash=dash)


def folder() -> Figure:
    """Four ranks with a half of the model each, a folder, and two that want to read."""
    figure, axes = drawing(8, 3.6)
    word(axes, 14, 33.8, "dp_replicate=2 tp=2", weight="bold", size=10)
    for number in range(4):
        y = 25.4 - 7.4 * number
        rank(axes, 5, y + 1.7, number, radius=3.1)
        for part in range(2):
            mine = part == number % 2
            _cell(axes, 10 + 7.5 * part, y - 0.6, 7.5, 4.6, COLOURS[part] if mine else "white")
        word(axes, 13.7 + 7.5 * (number % 2), y + 1.6, "half", size=9)
        arrow(axes, (26, y + 1.6), (33.4, 15 + 0.28 * (y - 13)), linewidth=1.2, color=GREY)
    axes.add_patch(Rectangle((34, 8.4), 14, 14.6, facecolor=PALE, edgecolor=INK))
    axes.add_patch(Rectangle((34, 23), 6, 2.2, facecolor=PALE, edgecolor=INK))
    word(axes, 41, 18.4, "the folder", size=10)
    word(axes, 41, 12.8, "? times\nthe weights", size=10.5, color=RED, weight="bold")
    word(axes, 66, 33.8, "who reads", weight="bold", size=10)
    word(axes, 66, 28, "dp_shard=4", size=10)
    for number in range(4):
        x = 56.4 + 5 * number
        box(axes, x, 19.6, 4.2, 6, colour=PALE, dash=":", edge=INK)
        word(axes, x + 2.1, 22.6, str(number), size=9.5)
    word(axes, 66, 12.4, "one rank, or none", size=10)
    box(axes, 56.4, 2.8, 19.2, 7, "all of the model", colour=PALE, dash=":", size=9.5)
    arrow(axes, (48.8, 18.4), (55.6, 22.4))
    arrow(axes, (48.8, 12.6), (55.6, 6.8))
    return figure


def turned() -> Figure:
    """Four files and the ranks that wrote them by their places; who stands where on the other mesh is left open."""
    figure, axes = drawing(8, 3.9)
    for number in range(4):
        box(axes, 16.5 + 13 * number, 31.4, 10.5, 4.6, f"rank{number}.pt", colour=COLOURS[number], size=9.5)
    for left, title in ((3, "dp_shard=2 tp=2"), (44, "tp=2 dp_shard=2")):
        known = left == 3
        word(axes, left + 21.2, 1.6, title, weight="bold", size=10)
        for number in range(4):
            shard, column = divmod(number, 2)
            x, y = left + 16 + 10.5 * column, 17.6 - 9.6 * shard
            colour, dash = (COLOURS[number], "-") if known else ("white", "--")
            name = f"rank {number}" if known else "rank ?"
            box(axes, x - 4.6, y - 3.6, 9.2, 7.6, name, colour=colour, dash=dash, size=9.5)
        for place in range(2):
            word(axes, left + 16 + 10.5 * place, 23.8, f"tp {place}", size=9.5, color=GREY)
            word(axes, left + 5.4, 17.8 - 9.6 * place, f"dp_shard {place}", size=9.5, color=GREY)
    arrow(axes, (25, 25.6), (30, 30.8), color=GREY)
    word(axes, 22.6, 28.2, "wrote", size=9.5, color=GREY)
    arrow(axes, (52, 30.8), (58, 25.6), color=RED, linewidth=2)
    word(axes, 61, 28.4, "?", size=18, weight="bold", color=RED)
    return figure
