"""The picture of part d: two messages from one rank to another, which needs them in another order."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.cut_model import LEFT, RIGHT
from course_lib.authoring.pictures.sketch import GREY, arrow, box, drawing, word

__all__ = ["arrival"]


def arrival() -> Figure:
    """What rank 0 sends to rank 1, from left to right, and what the row of rank 1 needs, in this order."""
    figure, axes = drawing(8, 2.6)
    for y, rank, stages in ((17.5, 0, "stages 0, 2"), (3.5, 1, "stages 1, 3")):
        word(axes, 7, y + 3.6, f"rank {rank}", weight="bold")
        word(axes, 7, y + 1, stages, size=9, color=GREY)
    for number, (text, sent, colour) in enumerate(
        (("B0 on stage 2", "gradient", RIGHT), ("F1 on stage 0", "activations", LEFT))
    ):
        left = 16 + 19 * number
        box(axes, left, 17.5, 15, 5, text, colour=colour)
        arrow(axes, (left + 7.5, 17.2), (left + 7.5, 13.4))
        word(axes, left + 11.5, 15.2, sent, size=9)
    for number, (text, colour) in enumerate((("F1 on stage 1", LEFT), ("B0 on stage 1", RIGHT))):
        box(axes, 37 + 19 * number, 3.5, 15, 5, text, colour=colour)
        word(axes, 44.5 + 19 * number, 10.8, "?", size=13, weight="bold")
    word(axes, 76, 6, "time", size=9, color=GREY)
    arrow(axes, (73, 3.4), (79, 3.4))
    return figure
