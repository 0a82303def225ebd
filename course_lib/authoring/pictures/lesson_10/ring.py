"""Pictures of a sequence that is cut among ranks, and of keys and values that go round."""

from __future__ import annotations

from math import cos, pi, sin

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

RED = OKABE_ITO["vermillion"]
_KEYS = "//"  # the hatch of keys and values


def quarters() -> Figure:
    """A sequence in quarters, and the parts of a block on each rank: which of them needs the others?"""
    figure, axes = drawing(8, 4.4)
    word(axes, 10.5, 39, "one sequence", ha="right", size=10.5)
    for number in range(4):
        left = 13 + 16 * number
        for place in range(8):
            box(axes, left + 1.7 * place, 37, 1.7, 4, colour=COLOURS[number])
        arrow(axes, (left + 6.8, 36.6), (left + 6.8, 34.6))
    layers = ("norm", "q, k, v", "attention", "output", "norm", "MLP")
    for row, name in enumerate(layers):
        y = 30.2 - 4.6 * row
        word(
            axes,
            10.5,
            y + 1.8,
            name,
            ha="right",
            size=10.5,
            weight="bold" if name == "attention" else "normal",
        )
        for number in range(4):
            box(axes, 13 + 16 * number, y, 13.6, 3.6, colour=COLOURS[number] if name != "attention" else PALE)
        if name == "attention":
            for number in range(4):
                word(axes, 19.8 + 16 * number, y + 1.7, "?", size=14, weight="bold", color=RED)
    for number in range(4):
        word(axes, 19.8 + 16 * number, 4, f"rank {number}", size=10)
    return figure


def two_sides() -> Figure:
    """Four keys on each of two sides; what a query finds there is to be joined."""
    figure, axes = drawing(8, 3.4)
    box(axes, 2.5, 14.4, 9, 5, "a query", colour=OKABE_ITO["purple"], size=10)
    for side, y in enumerate((22.6, 5.2)):
        name = ("first", "second")[side]
        word(axes, 25, y + 7.4, f"keys and values, {name} side", size=10)
        for place in range(4):
            box(axes, 17 + 4 * place, y, 4, 4.6, colour=COLOURS[side], hatch=_KEYS)
        arrow(axes, (11.8, 16.9 + 1.4 * (1 - 2 * side)), (16.5, y + 2.3))
        arrow(axes, (33.5, y + 2.3), (38.4, y + 2.3))
        box(axes, 39, y, 6.4, 4.6, "out", colour=COLOURS[side], size=10)
        box(axes, 45.4, y, 4.6, 4.6, "lse", colour=COLOURS[side], size=10)
        arrow(axes, (50.4, y + 2.3), (55.5, 16.9 + 2.4 * (1 - 2 * side)))
    box(axes, 56, 12.6, 8.4, 8.6, colour=RED)
    word(axes, 60.2, 18.6, "join", size=10.5, weight="bold", color="white")
    word(axes, 60.2, 15.2, "?", size=15, weight="bold", color="white")
    arrow(axes, (64.9, 16.9), (67.6, 16.9))
    box(axes, 68, 14.6, 6, 4.6, "out", size=10)
    box(axes, 74, 14.6, 4.6, 4.6, "lse", size=10)
    word(axes, 73.3, 22.2, "as if of all keys", size=9.5, color=GREY)
    return figure


def round_and_round() -> Figure:
    """Four ranks in a ring: queries stay, keys and values go on to the next rank."""
    figure, axes = drawing(8, 4.6)
    middle, wide, high = (26.5, 22.5), 15.0, 13.0
    angles = [pi * (1 - number / 2) for number in range(4)]
    places = [(middle[0] + wide * cos(angle), middle[1] + high * sin(angle)) for angle in angles]
    for number, (angle, (x, y)) in enumerate(zip(angles, places, strict=True)):
        after = places[(number + 1) % 4]
        arrow(axes, (x, y), after, gap=24, head=16, linewidth=2.4, connectionstyle="arc3,rad=-0.22")
        rank(axes, x, y, number)
        _beside(axes, (x + 6.9 * cos(angle), y + 5.9 * sin(angle)), f"q {number}", number)
        _beside(axes, (x - 7.5 * cos(angle), y - 5.9 * sin(angle)), f"k, v {number}", number, hatch=_KEYS)
    word(axes, 2.2, 41.6, "queries stay,\nkeys and values go on", size=10, ha="left")
    _lap(axes)
    return figure


def _beside(axes: Axes, middle: tuple[float, float], text: str, number: int, *, hatch: str = "") -> None:
    """What a rank holds, in a box."""
    wide = 6.6 if hatch else 4.8
    box(
        axes,
        middle[0] - wide / 2,
        middle[1] - 1.8,
        wide,
        3.6,
        text,
        colour=COLOURS[number],
        hatch=hatch,
        size=9,
    )


def _lap(axes: Axes) -> None:
    """What rank 0's queries meet, step by step."""
    word(axes, 65, 38.6, "rank 0's queries meet", size=10.5, weight="bold")
    for step, owner in enumerate((0, 3, 2, 1)):
        y = 30.6 - 7.6 * step
        word(axes, 54.6, y + 2, f"step {step}", size=10, ha="left")
        box(axes, 61.9, y, 7.6, 4, f"k, v {owner}", colour=COLOURS[owner], hatch=_KEYS, size=9)
        if step < 3:
            word(axes, 70.6, y - 1.8, "join", size=9.5, color=RED, ha="left")
            arrow(axes, (65.7, y - 0.3), (65.7, y - 3.3), color=RED)
    axes.add_patch(Rectangle((52.5, 4.6), 25, 31.6, facecolor="none", edgecolor=GREY, linestyle="--"))
