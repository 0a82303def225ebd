"""Pictures of part b: who keeps which rows, a weight that is whole for a moment, and what a unit may be."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

RED = OKABE_ITO["vermillion"]
_BAND = 1.7  # how high a quarter of a matrix is drawn


def quarters() -> Figure:
    """Four ranks, each with its own quarter of every layer's rows; the third layer is to compute."""
    figure, axes = drawing(8, 4.3)
    for layer in range(6):
        x = 24.5 + 8.4 * layer
        word(axes, x + 2.8, 40.2, f"layer {layer + 1}", size=9, weight="bold" if layer == 2 else "normal")
        for number in range(4):
            _matrix(axes, x, 30 - 9.2 * number, 5.6, [number])
    axes.add_patch(_frame(40.1, 0.9, 8, 37.6))
    for number in range(4):
        y = 33.4 - 9.2 * number
        rank(axes, 4.6, y, number, radius=3.2)
        box(axes, 9.6, y - 1.9, 10.6, 3.8, "its part of\nthe batch", size=7.5)
        arrow(axes, (20.4, y), (24.1, y))
    word(axes, 76.6, 33.4, "what is\nnot filled\nlies on\nothers", size=8.5, color=GREY)
    word(axes, 76.6, 15.6, "layer 3\nis to\ncompute", size=9, color=RED)
    word(axes, 76.6, 8.6, "?", size=20, weight="bold", color=RED)
    return figure


def borrow() -> Figure:
    """One layer on rank 1: its quarter, all of it, its quarter; in backward nobody has said yet."""
    figure, axes = drawing(8, 3)
    word(axes, 5.6, 27, "a weight,\non rank 1", size=9, color=GREY)
    for x, text in ((16, "before"), (35, "for a moment"), (72, "afterwards")):
        word(axes, x, 27, text, size=9, color=GREY)
    rows = (
        (16.4, "forward", ("all-gather", "x  →  y", "let go")),
        (4.2, "backward", ("?", "dy  →  dx, dW", "?")),
    )
    for y, title, (before, computes, after) in rows:
        middle = y + 2 * _BAND
        word(axes, 5.6, middle, title, weight="bold", size=11)
        _matrix(axes, 12, y, 8, [1])
        for start, end, text in ((20.6, 30.4, before), (39.6, 46.4, ""), (60.6, 67.4, after)):
            arrow(axes, (start, middle), (end, middle))
            word(axes, (start + end) / 2, middle + 2, text, size=9, color=RED, weight="bold")
        word(axes, 53.5, middle, computes, size=10)
    _matrix(axes, 31, 16.4, 8, [0, 1, 2, 3])
    _matrix(axes, 68, 16.4, 8, [1])
    for x in (31, 68):
        box(axes, x, 4.2, 8, 4 * _BAND, "?", colour="white", dash=":", size=16)
    return figure


def units() -> Figure:
    """Eight layers as eight units, as two, as one; what the peak is then is asked."""
    figure, axes = drawing(8, 2.5)
    for place, of in enumerate((1, 4, 8)):
        left, number = 2 + 26.6 * place, 8 // of
        title = "a unit for each layer" if of == 1 else f"{number} unit{'s' * (number > 1)} of {of} layers"
        word(axes, left + 11.6, 21.6, title, size=10, weight="bold")
        for layer in range(8):
            box(axes, left + 2.9 * layer + 0.45, 12.2, 1.7, 4.6, colour=COLOURS[0])
        for unit in range(number):
            wide = 2.9 * of
            axes.add_patch(_frame(left + wide * unit + 0.1, 11.1, wide - 0.5, 6.8))
        word(axes, left + 4.4, 6.6, "messages", size=9)
        word(axes, left + 4.4, 2.8, "peak", size=9)
        for y in (5.2, 1.4):
            box(axes, left + 9, y, 13, 2.8, "?", colour="white", dash=":", size=11)
    return figure


def _matrix(axes: Axes, x: float, y: float, wide: float, bands: list[int]) -> None:
    """A matrix of four quarters of rows, the first on top; those in ``bands`` are here."""
    for number, colour in enumerate(COLOURS):
        here = number in bands
        look: dict[str, Any] = {"colour": colour} if here else {"colour": "white", "edge": "#BBBBBB", "dash": ":"}
        box(axes, x, y + _BAND * (3 - number), wide, _BAND, str(number) if here else "", size=6.5, **look)


def _frame(x: float, y: float, wide: float, high: float) -> Rectangle:
    """A dashed line around something."""
    return Rectangle((x, y), wide, high, fill=False, edgecolor=RED, linewidth=1.6, linestyle="--")
