"""Pictures of a model on several ranks: its loss and its dropout."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

ZERO, ONE = COLOURS[:2]
RED = OKABE_ITO["vermillion"]


def vocabulary() -> Figure:
    """Logits whose columns lie on two ranks, and the loss of one position."""
    figure, axes = drawing(8, 2.7)
    word(axes, 28, 24.4, "logits: a row for each position, a column for each token", weight="bold", size=10)
    for number, colour in enumerate((ZERO, ONE)):
        for row in range(4):
            for column in range(6):
                left = 4 + 24.5 * number + 3.9 * column
                axes.add_patch(Rectangle((left, 16.5 - 3.6 * row), 3.7, 3.3, facecolor=colour, edgecolor=INK))
        word(axes, 15.7 + 24.5 * number, 2.6, f"rank {number}: its tokens", size=10)
    axes.add_patch(Rectangle((3.5, 16.2), 48.7, 3.9, facecolor="none", edgecolor=INK, linewidth=1.8))
    arrow(axes, (52.6, 18.2), (57.6, 18.2))
    box(axes, 58, 15.4, 18, 5.6, "the position's loss", size=9.5)
    word(axes, 67, 10.4, "which numbers must the ranks\nhand in for a row?", size=9.5)
    word(axes, 67, 5, "?", size=20, weight="bold", color=RED)
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
