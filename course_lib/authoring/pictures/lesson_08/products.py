"""Pictures of one product, cut: which part of each matrix lies on which rank."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, INK, PALE, arrow, box, drawing, word
from course_lib.widgets import MatmulExplorer

ZERO, ONE = COLOURS[:2]


def matrix(
    axes: Axes, x: float, y: float, wide: float, high: float, parts: list[tuple[str, str]], *, dim: int | None,
    hatch: str = "",
) -> None:  # fmt: skip
    """A matrix with its lower left corner at (x, y); ``parts`` are colours and texts, from the left or from the top."""
    n = len(parts)
    for number, (colour, text) in enumerate(parts):
        if dim == 1:
            box(axes, x + number * wide / n, y, wide / n, high, text, colour=colour, size=10, hatch=hatch)
        else:
            box(
                axes,
                x,
                y + (n - 1 - number) * high / n,
                wide,
                high / n,
                text,
                colour=colour,
                size=10,
                hatch=hatch,
            )
    axes.add_patch(Rectangle((x, y), wide, high, facecolor="none", edgecolor=INK, linewidth=1.6))


def columns() -> Figure:
    """A product with A cut by columns: each rank gets columns of Y."""
    figure, axes = drawing(8, 2.1)
    matrix(axes, 8, 4, 12, 10, [(PALE, "on both ranks")], dim=0)
    matrix(axes, 28, 4, 18, 10, [(ZERO, "rank 0"), (ONE, "rank 1")], dim=1)
    matrix(axes, 54, 4, 18, 10, [(ZERO, "X A₀"), (ONE, "X A₁")], dim=1)
    for x, text in ((14, "X"), (37, "A, cut by columns"), (63, "Y")):
        word(axes, x, 17, text, weight="bold", size=11)
    word(axes, 24, 9, "×", size=16)
    word(axes, 50, 9, "=", size=16)
    return figure


def rows() -> Figure:
    """A product with A cut by rows: each rank gets a summand of Y."""
    figure, axes = drawing(8, 2.6)
    matrix(axes, 3, 8, 12, 10, [(ZERO, "0"), (ONE, "1")], dim=1)
    matrix(axes, 21, 8, 16, 10, [(ZERO, "rank 0"), (ONE, "rank 1")], dim=0)
    for x, colour, text in ((43.0, ZERO, "Y₀"), (62.0, ONE, "Y₁")):
        matrix(axes, x, 8, 15, 10, [(colour, text)], dim=0, hatch="//")
    for x, text in ((9.0, "X"), (29.0, "A, cut by rows"), (50.5, "rank 0 has"), (69.5, "rank 1 has")):
        word(axes, x, 21, text, weight="bold", size=11)
    word(axes, 18, 13, "×", size=16)
    word(axes, 40, 13, "=", size=16)
    word(axes, 60, 13, "?", size=20, weight="bold")
    word(axes, 40, 3.4, "two products of the full shape: how do they become Y?", size=10.5)
    return figure


def tiles() -> Figure:
    """A cut in four tiles, and each half of Y as a sum of two ranks' products."""
    figure, axes = drawing(8, 2.6)
    matrix(axes, 3, 6, 12, 12, [(PALE, ""), (PALE, "")], dim=1)
    word(axes, 6, 12, "for\n0, 1", size=9)
    word(axes, 12, 12, "for\n2, 3", size=9)
    for number, colour in enumerate(COLOURS):
        row, column = divmod(number, 2)
        box(axes, 21 + 9 * column, 12 - 6 * row, 9, 6, f"rank {number}", colour=colour, size=9.5)
    for x, pair, text in ((46.0, (0, 2), "left columns of Y"), (64.0, (1, 3), "right columns of Y")):
        for place, number in enumerate(pair):
            left = x + 7.5 * place
            box(axes, left, 6, 5, 12, str(number), colour=COLOURS[number], hatch="//", size=11, pad=2)
        word(axes, x + 6.25, 12, "+", size=14, weight="bold")
        word(axes, x + 6.25, 3, text, size=9.5)
    for x, text in ((9, "X"), (30, "A, in tiles"), (61, "Y: what two ranks make, added up")):
        word(axes, x, 21.5, text, weight="bold", size=11)
    word(axes, 18, 12, "×", size=16)
    word(axes, 42.5, 12, "=", size=16)
    return figure


def backward() -> Figure:
    """A cut by columns: forward needs X on both ranks, and what backward does is the question."""
    figure, axes = drawing(8, 3.3)
    for top, title in ((22, "forward"), (7, "backward")):
        word(axes, 6, top, title, weight="bold", size=11)
        for row, (colour, number) in enumerate(((ZERO, 0), (ONE, 1))):
            y = top + 3.4 - 6.8 * row
            box(axes, 34, y - 2.4, 12, 4.8, f"A{'₀₁'[number]}", colour=colour)
            if top == 22:
                box(axes, 60, y - 2.4, 14, 4.8, f"Y{'₀₁'[number]}", colour=colour)
                arrow(axes, (24.5, top), (33.6, y))
                arrow(axes, (46.4, y), (59.6, y))
            else:
                box(axes, 60, y - 2.4, 14, 4.8, f"dY{'₀₁'[number]}", colour=colour)
                arrow(axes, (59.6, y), (46.4, y))
                arrow(axes, (33.6, y), (24.9, top))
        if top == 22:
            box(axes, 14, top - 2.4, 10, 4.8, "X")
        else:
            box(axes, 14, top - 2.4, 10, 4.8, "dX ?", dash="--", size=11)
    word(axes, 40, 31.6, "A is cut by columns: one part on each rank", size=10)
    return figure


def explorer() -> bytes:
    """The widget's own picture of X cut by columns and A by rows."""
    widget = MatmulExplorer()
    widget.num_ranks.value, widget.x.value = "4", "cut by columns"
    widget.a.value, widget.y.value = "cut by rows", "whole"
    return widget.picture().png()


def gather() -> Figure:
    """Logits that bear their position and token: as wanted, and as two ranks' parts stacked and viewed."""
    figure, axes = drawing(8, 2.3)
    tables = (
        ("wanted", ("00", "01", "02", "03", "10", "11", "12", "13")),
        ("got", ("00", "01", "10", "11", "02", "03", "12", "13")),
    )
    for column, (title, cells) in enumerate(tables):
        left = 8 + 36 * column
        word(axes, left + 14, 20.4, title, weight="bold", size=11)
        for number, cell in enumerate(cells):
            row, place = divmod(number, 4)
            colour = COLOURS[int(cell[1]) // 2]
            hatch = "//" if cell[0] == "1" else ""
            box(axes, left + 7 * place, 11.4 - 5.6 * row, 7, 5.6, cell, colour=colour, hatch=hatch, size=10.5)
    word(
        axes,
        40,
        2,
        "first digit: position (1 is hatched); second: token; colour: the rank that computed it",
        size=9.5,
    )
    return figure
