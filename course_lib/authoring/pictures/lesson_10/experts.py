"""Pictures of a layer of experts: one token's way, experts on four ranks, and the journey of rows."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

RED = OKABE_ITO["vermillion"]
_CHOSEN = (2, 5)
_CHOICES = (5, 2, 0, 5, 7, 2, 3, 0)  # experts of four tokens' choices, two each


def mixture() -> Figure:
    """A token, a router, and eight MLPs of which it takes two."""
    figure, axes = drawing(8, 4.2)
    box(axes, 2.5, 18.2, 9, 5.6, "a token", colour=OKABE_ITO["purple"], size=10.5)
    arrow(axes, (12, 21), (16.6, 21))
    box(axes, 17, 16.6, 11, 8.8, colour=RED)
    word(axes, 22.5, 21, "router", size=11, weight="bold", color="white")
    for number in range(8):
        y = 36.4 - 4.8 * number
        is_chosen = number in _CHOSEN
        colour = COLOURS[number // 2] if is_chosen else PALE
        box(
            axes,
            37.5,
            y,
            14,
            3.8,
            f"MLP {number}",
            colour=colour,
            size=10,
            ink="black" if is_chosen else GREY,
        )
        look: dict[str, Any] = {"linewidth": 2.2} if is_chosen else {"linewidth": 0.8, "color": GREY, "linestyle": ":"}
        arrow(axes, (28.4, 21), (37, y + 1.9), head=14 if is_chosen else 7, **look)
        if is_chosen:
            arrow(axes, (52, y + 1.9), (62.3, 21 + (2.2 if y > 21 else -2.2)), head=14, linewidth=2.2)
            word(axes, 57.6, y + (2.6 if y > 21 else 0.6), "x weight", size=9.5, color=RED)
    box(axes, 62.8, 17.6, 6, 6.8, "+", size=17)
    arrow(axes, (69.2, 21), (73.6, 21))
    word(axes, 76.6, 21, "out", size=10.5)
    return figure


def shared_out() -> Figure:
    """Four ranks, each with its tokens, a router, and two of the eight experts."""
    figure, axes = drawing(8, 4.6)
    for number in range(4):
        left = 3.4 + 19.4 * number
        rank(axes, left + 7.4, 41.4, number)
        word(axes, left + 7.4, 35.8, "its own tokens", size=9, color=GREY)
        for place in range(6):
            box(axes, left + 0.4 + 2.4 * place, 30.6, 2, 3.4, colour=COLOURS[number])
        arrow(axes, (left + 7.4, 30.2), (left + 7.4, 27.2))
        box(axes, left + 1.4, 22.4, 12, 4.6, "router", colour=RED, ink="white", size=10)
        arrow(axes, (left + 7.4, 22), (left + 7.4, 19.2))
        for own in range(2):
            name = f"expert {2 * number + own}"
            box(axes, left + 7.6 * own - 0.2, 4.6, 7.4, 5.4, name, colour=COLOURS[number], size=8.5)
        arrow(axes, (left + 7.4, 13.4), (left + 7.4, 10.4))
    axes.add_patch(Rectangle((2.4, 13.8), 75.2, 5.2, facecolor="white", edgecolor=GREY, linestyle="--"))
    word(axes, 40, 16.3, "?", size=17, weight="bold", color=RED)
    return figure


def journey() -> Figure:
    """Rows of one rank in two orders, what comes to a rank from all four, and the way back."""
    figure, axes = drawing(8, 4.6)
    word(axes, 17, 42.6, "on rank 1: a row for each choice", size=10.5, weight="bold")
    _rows(axes, 36, _CHOICES, "token\nafter token")
    arrow(axes, (17, 35.4), (17, 31.9))
    _rows(axes, 27.2, tuple(sorted(_CHOICES)), "?")
    for place, expert in enumerate(sorted(_CHOICES)):
        to = expert // 2
        arrow(axes, (5.2 + 3.4 * place, 26.8), (7 + 6.8 * to, 19.6), head=9, color=COLOURS[to], linewidth=1.8)
    for number in range(4):
        rank(axes, 7 + 6.8 * number, 15.6, number, radius=3.1)
    word(axes, 17.4, 10.2, "all-to-all", size=10.5, color=RED)
    word(axes, 58, 42.6, "on rank 2: experts 4 and 5", size=10.5, weight="bold")
    came = ((0, (4, 5, 5)), (1, (5, 5)), (2, (4,)), (3, (4, 4, 5)))
    left = 43.5
    for number, experts in came:
        for expert in experts:
            box(axes, left, 33, 3, 4.4, str(expert), colour=COLOURS[number], size=10)
            left += 3
        word(axes, left - 1.5 * len(experts), 31.2, f"from {number}", size=8)
        left += 0.9
    word(axes, 58, 39.6, "rows as they come", size=9.5, color=GREY)
    for own, x in enumerate((46, 60)):
        arrow(axes, (58, 29.6), (x + 5, 24.6))
        box(axes, x, 19.4, 10, 5, f"expert {4 + own}", colour=COLOURS[2], size=10)
        arrow(axes, (x + 5, 19), (58, 13.8))
    box(axes, 50, 8.6, 16, 5, "outputs", size=10)
    arrow(axes, (49.6, 11), (35, 11), head=16, linewidth=2.4, color=RED)
    word(axes, 42.3, 14, "back  ?", size=12, weight="bold", color=RED)
    word(
        axes,
        40,
        3.4,
        "the number in a row is that of its expert, its colour the rank where it was or goes",
        size=9,
        color=GREY,
    )
    return figure


def _rows(axes: Axes, y: float, experts: tuple[int, ...], beside: str) -> None:
    for place, expert in enumerate(experts):
        box(axes, 3.6 + 3.4 * place, y, 3.2, 4.4, str(expert), colour=COLOURS[expert // 2], size=10)
    if beside == "?":
        word(axes, 35.2, y + 2.2, beside, size=13, weight="bold", color=RED)
    else:
        word(axes, 35.2, y + 2.2, beside, size=8.5, color=GREY)
