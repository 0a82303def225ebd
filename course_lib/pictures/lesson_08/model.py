"""Pictures of a whole model on several ranks: its parts, its loss, its dropout, and what goes wrong in it."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.pictures.sketch import COLOURS, GREY, INK, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

ZERO, ONE = COLOURS[:2]
RED = OKABE_ITO["vermillion"]


def whole_model() -> Figure:
    """A model on one device, and the same on two ranks: are the weights equal?"""
    figure, axes = drawing(8, 2.5)
    names = ("stem", "block", "block", "head")
    for number, name in enumerate(names):
        box(axes, 4 + 7.4 * number, 8, 6.6, 10, name, size=9.5)
        for part, colour in enumerate((ZERO, ONE)):
            box(
                axes,
                45 + 8.4 * number,
                13.4 - 5.2 * part,
                7.4,
                4.8,
                f"{name} {part}",
                colour=colour,
                size=8.5,
            )
    word(axes, 18.5, 21, "one device", weight="bold")
    word(axes, 61.5, 21, "two ranks, half of every matrix each", weight="bold")
    word(axes, 39.6, 13, "=\u2009?", size=18, weight="bold")
    word(axes, 40, 3.4, "after five steps of AdamW: every weight the same?", size=10)
    return figure


def vocabulary() -> Figure:
    """Logits whose columns lie on two ranks, and the loss of one position."""
    figure, axes = drawing(8, 2.7)
    word(axes, 28, 24.4, "logits: a row for each position, a column for each token", weight="bold", size=10)
    for number, colour in enumerate((ZERO, ONE)):
        for row in range(4):
            for column in range(6):
                left = 4 + 24.5 * number + 3.9 * column
                axes.add_patch(
                    Rectangle((left, 16.5 - 3.6 * row), 3.7, 3.3, facecolor=colour, edgecolor="white")
                )
        word(axes, 15.7 + 24.5 * number, 2.6, f"rank {number}: its tokens", size=10)
    axes.add_patch(Rectangle((3.5, 16.2), 48.7, 3.9, facecolor="none", edgecolor=INK, linewidth=1.8))
    arrow(axes, (52.6, 18.2), (57.6, 18.2))
    box(axes, 58, 15.4, 18, 5.6, "the position's loss", size=9.5)
    word(axes, 67, 10.4, "which numbers must the ranks\nhand in for a row?", size=9.5)
    word(axes, 67, 5, "?", size=20, weight="bold", color=RED)
    return figure


def dropout() -> Figure:
    """Two ranks, eight hidden units each; nothing said about which are dropped."""
    figure, axes = drawing(8, 1.9)
    for number in range(2):
        left = 10 + 31 * number
        word(axes, left + 14, 15.5, f"hidden units of rank {number}", weight="bold", size=10)
        for place in range(8):
            box(axes, left + 3.6 * place, 7, 3.3, 5, "?", colour=COLOURS[number], size=11)
            word(axes, left + 3.6 * place + 1.65, 4.8, str(place), size=8.5, color=GREY)
    word(axes, 40, 1.6, "one layer of 16 units: which of them are dropped?", size=10)
    return figure


def masks() -> Figure:
    """Dropout masks of two ranks with the same seed, and with numbers of their own."""
    figure, axes = drawing(8, 2.9)
    patterns = {"the same seed": ("10110010", "10110010"), "numbers of its own": ("10110010", "01011011")}
    for row, (title, kept) in enumerate(patterns.items()):
        y = 17.5 - 12.5 * row
        word(axes, 2, y + 3, title, ha="left", weight="bold", size=10)
        for number, pattern in enumerate(kept):
            left = 22 + 29 * number
            word(axes, left + 13, y + 8.2, f"hidden units of rank {number}", size=9.5)
            for place, keep in enumerate(pattern):
                colour = COLOURS[number] if keep == "1" else "white"
                box(
                    axes,
                    left + 3.3 * place,
                    y + 1,
                    3,
                    4.4,
                    "" if keep == "1" else "×",
                    colour=colour,
                    size=12,
                )
    word(axes, 40, 1.8, "×: dropped", size=9.5, color=GREY)
    return figure


def clinic() -> Figure:
    """A norm's weight that two ranks change apart, and what to look for."""
    figure, axes = drawing(8, 2.7)
    box(axes, 4, 3, 34, 21, "")
    steps = torch.linspace(0, 1, 30)
    for number, sign in ((0, 1.0), (1, -0.75)):
        y = 13.5 + sign * 8.4 * steps**1.5
        axes.plot(6 + 24 * steps, y, color=COLOURS[number], linewidth=3, linestyle=("-", "--")[number])
        word(axes, 34, float(y[-1]), f"rank {number}", size=9)
    word(axes, 21, 25.4, "a norm's weight, on two ranks", size=10, weight="bold")
    word(axes, 21, 1.4, "steps", size=9.5)
    box(axes, 44, 3, 33, 21, "")
    rows = (
        "what to look for",
        "which gradients are right?",
        "which are alike on both ranks?",
        "where does it turn?",
    )
    for number, text in enumerate(rows):
        word(
            axes, 46, 20 - 4.6 * number, text, ha="left", size=10, weight="bold" if number == 0 else "normal"
        )
    return figure
