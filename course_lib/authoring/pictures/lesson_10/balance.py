"""Pictures of a causal sequence among ranks: the mask in blocks, position numbers, and two cuts of heads."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

RED = OKABE_ITO["vermillion"]
_RANKS, _EACH = 4, 4


def mask() -> Figure:
    """A causal mask; rows are cut by the rank of the query, columns by that of the key."""
    figure, axes = drawing(8, 4.4)
    side, left, top = 2.3, 19.0, 39.6
    block = side * _EACH
    for query in range(_RANKS * _EACH):
        for key in range(_RANKS * _EACH):
            seen = key <= query
            box(
                axes, left + side * key, top - side * (query + 1), side, side,
                colour=COLOURS[query // _EACH] if seen else "white", edge="#BBBBBB",
            )  # fmt: skip
    for row in range(_RANKS):
        for column in range(_RANKS):
            place = (left + block * column, top - block * (row + 1))
            axes.add_patch(Rectangle(place, block, block, facecolor="none", edgecolor=INK, linewidth=2))
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            word(
                axes,
                place[0] + block / 2,
                place[1] + block / 2,
                f"step {(row - column) % _RANKS}",
                size=8.5,
                bbox=ground,
            )
    for number in range(_RANKS):
        middle = block * (number + 0.5)
        word(axes, left - 1.4, top - middle, f"queries of rank {number}", ha="right")
        word(axes, left + middle, top + 1.6, f"keys of {number}")
    word(axes, 59, 34, "a small square:\none query, one key", ha="left", size=9.5)
    word(axes, 59, 27.2, "coloured: it looks\nat that key", ha="left", size=9.5)
    word(
        axes,
        59,
        19.6,
        "a thick frame: what the\nrank of these queries has\nin one step of a lap",
        ha="left",
        size=9.5,
    )
    return figure


def numbers() -> Figure:
    """What a stem that counts from 0 on each rank gives to a sequence that is cut into quarters."""
    figure, axes = drawing(8, 2.5)
    wide, left = 3.7, 17.0
    rows = (("stands in the\nsequence at", 13.6), ("gets from the\nteam's stem", 5.2))
    for text, y in rows:
        word(axes, left - 2, y + 1.8, text, ha="right", size=9.5)
    for rank in range(_RANKS):
        word(axes, left + _x(rank, 1.5, wide) + wide / 2, 20.8, f"rank {rank}", size=10)
        for place in range(_EACH):
            x = left + _x(rank, place, wide)
            box(axes, x, rows[0][1], wide, 3.6, f"{rank * _EACH + place}", colour=COLOURS[rank], size=10)
            box(axes, x, rows[1][1], wide, 3.6, f"{place}", colour=COLOURS[rank], size=10, hatch="//")
            arrow(axes, (x + wide / 2, rows[0][1] - 0.3), (x + wide / 2, rows[1][1] + 4.0), head=8, color=GREY)
    return figure


def _x(rank: int, place: float, wide: float) -> float:
    return (_EACH * wide + 0.7) * rank + place * wide


def heads() -> Figure:
    """Heads by positions, cut by positions on the left and by heads on the right."""
    figure, axes = drawing(8, 3.7)
    for left, by_heads, title in (
        (5.0, False, "each rank: some positions"),
        (45.0, True, "each rank: some heads"),
    ):
        _table(axes, left, by_heads)
        word(axes, left + 12.8, 34.6, title, size=10.5, weight="bold")
        word(axes, left - 2.2, 16.8, "heads", rotation=90)
        word(axes, left + 12.8, 2.2, "positions")
    for number in range(_RANKS):
        word(axes, 5.0 + 6.4 * (number + 0.5), 31.4, f"rank {number}", size=9.5)
        word(axes, 71.4, 29.6 - 6.4 * (number + 0.5), f"rank {number}", size=9.5, ha="left")
    arrow(axes, (33.0, 20.0), (40.2, 20.0), head=16, linewidth=2.2, color=RED)
    arrow(axes, (40.2, 13.2), (33.0, 13.2), head=16, linewidth=2.2, color=RED)
    word(axes, 36.6, 22.4, "q, k, v", size=9.5)
    word(axes, 36.6, 10.8, "output", size=9.5)
    word(axes, 36.6, 16.6, "all-to-all", size=9.5, color=RED)
    return figure


def _table(axes: Axes, left: float, by_heads: bool) -> None:
    wide, high = 3.2, 3.2
    for head in range(2 * _RANKS):
        for place in range(2 * _RANKS):
            owner = (head if by_heads else place) // 2
            y = 4.0 + high * (2 * _RANKS - 1 - head)
            box(axes, left + wide * place, y, wide, high, colour=COLOURS[owner])
