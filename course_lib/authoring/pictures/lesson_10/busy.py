"""Pictures of experts that are equally busy or not, of two levers on a router, and of an expert that is full."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

RED, BLUE = OKABE_ITO["vermillion"], OKABE_ITO["blue"]
_EVEN, _SKEWED = (7,) * 8, (28, *(4,) * 7)  # tokens of a rank for each expert


def queues() -> Figure:
    """Eight experts on four ranks, and how many tokens wait for each."""
    figure, axes = drawing(8, 4.6)
    for left, counts, title in (
        (1.5, _EVEN, "equally busy"),
        (41.5, _SKEWED, "half of all tokens at expert 0"),
    ):
        word(axes, left + 18.5, 43.3, title, size=11, weight="bold")
        for number in range(4):
            x = left + 9.5 * number
            rank(axes, x + 4.2, 4.6, number)
            for place in (0, 1):
                expert = 2 * number + place
                box(axes, x + 4.3 * place, 9.2, 3.8, 4.2, f"E{expert}", colour=COLOURS[number], size=9.5)
                _queue(axes, x + 4.3 * place + 0.65, counts[expert], COLOURS[number])
    axes.plot((40, 40), (2, 44), color=GREY, linewidth=0.8, linestyle="--")
    return figure


def _queue(axes: Axes, x: float, count: int, colour: str) -> None:
    """Tokens above their expert."""
    for place in range(count):
        axes.add_patch(Rectangle((x, 14.3 + 0.95 * place), 2.5, 0.8, facecolor=colour, edgecolor=INK, linewidth=0.6))


def levers() -> Figure:
    """From a token to its two experts, and where the two levers take hold."""
    figure, axes = drawing(8, 3.5)
    steps = (("token", 1.5, 8), ("scores", 15, 9.5), ("probabilities", 30, 13), ("the best two", 58, 12))
    for text, x, wide in steps:
        box(axes, x, 14.6, wide, 6, text, colour=OKABE_ITO["purple"] if text == "token" else PALE, size=10.5)
    for start, end in ((9.8, 14.6), (24.8, 29.6), (43.3, 47.7), (52.4, 57.6)):
        arrow(axes, (start, 17.6), (end, 17.6))
    word(axes, 12.2, 19.6, "router", size=9, color=GREY)
    axes.add_patch(Circle((50, 17.6), 2.1, facecolor="white", edgecolor=BLUE, linewidth=1.6))
    word(axes, 50, 17.5, "+", size=15, color=BLUE, weight="bold")
    box(axes, 44, 26.1, 12, 5.4, "bias", colour=BLUE, ink="white", size=10.5)
    arrow(axes, (50, 25.8), (50, 20), color=BLUE, linewidth=1.8)
    word(axes, 57.2, 28.8, "one number an expert,\nmoved after each step", ha="left", size=9, color=GREY)
    box(axes, 28, 26.1, 14, 5.4, "balance loss", colour=RED, ink="white", size=10.5)
    arrow(axes, (36.5, 21), (36.5, 25.7), color=GREY)
    arrow(
        axes,
        (27.6, 28.6),
        (19.7, 21),
        color=RED,
        linewidth=1.8,
        linestyle="--",
        connectionstyle="arc3,rad=0.25",
    )
    word(axes, 16.4, 27.6, "gradient", size=9.5, color=RED)
    axes.plot((36.5, 36.5, 64), (14.3, 5.8, 5.8), color=INK, linewidth=1)
    arrow(axes, (63.9, 5.8), (65.6, 5.8))
    word(axes, 66.3, 5.8, "weights of\nthe outputs", ha="left", size=9.5)
    word(axes, 50, 7.8, "without the bias", size=9, color=GREY)
    arrow(axes, (70.3, 17.6), (73, 17.6))
    for place in (0, 1):
        box(axes, 73.4, 18.2 - 4.6 * place, 4.6, 4, "E", colour=COLOURS[2 * place], size=9.5)
    return figure


def room() -> Figure:
    """Six tokens want an expert that has four places."""
    figure, axes = drawing(8, 3.2)
    word(axes, 12, 27.6, "tokens, in turn", size=10)
    for place in range(6):
        colour = COLOURS[0] if place < 4 else RED
        box(axes, 1.5 + 3.6 * (5 - place), 19.8, 3.2, 4.4, str(place), colour=colour, size=10)
    box(axes, 32, 15.4, 21, 13.4, "", colour=PALE)
    word(axes, 42.5, 26.4, "expert, 4 places: full", size=10, weight="bold")
    for place in range(4):
        box(axes, 33.5 + 4.6 * (3 - place), 18.6, 4.2, 5, str(place), colour=COLOURS[0], size=10)
    arrow(axes, (23.6, 22), (31.4, 22))
    arrow(axes, (53.4, 22), (66.6, 22))
    axes.add_patch(Circle((69, 22), 2.1, facecolor="white", edgecolor=INK, linewidth=1.4, zorder=3))
    word(axes, 69, 21.9, "+", size=15, weight="bold", zorder=4)
    arrow(axes, (71.4, 22), (78, 22))
    axes.plot((12, 12, 69), (19.3, 7, 7), color=INK, linewidth=1.4)
    arrow(axes, (69, 6.9), (69, 19.6), linewidth=1.4)
    word(axes, 42.5, 4, "residual stream: all six", size=9.5, color=GREY)
    for place in (5, 4):
        box(axes, 37.8 + 4.6 * (5 - place), 8, 4.2, 4.4, str(place), colour=RED, size=10)
    word(axes, 61, 10.2, "nothing is\nadded to these", size=9.5, color=RED)
    return figure
