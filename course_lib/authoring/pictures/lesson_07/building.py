"""The pictures of part d: what a runtime has to do, and two messages that are needed in another order."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.cut_model import LEFT, LOOKS, RIGHT
from course_lib.authoring.pictures.sketch import GREY, arrow, box, drawing, word

__all__ = ["arrival", "runtime"]

_ROW = ("F0", "F1", "B0", "F2", "B1", "B2")  # of the middle of three ranks, by 1F1B


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


def runtime() -> Figure:
    """The row of one rank: which message enters and leaves each action is drawn, when and what is kept is asked."""
    figure, axes = drawing(8, 3.4)
    for y, name in ((29.2, "rank 0"), (17.4, "rank 1"), (7.2, "rank 2")):
        word(axes, 6, y, name, weight="bold")
    for number, action in enumerate(_ROW):
        left, (colour, hatch) = 12.5 + 11 * number, LOOKS[action[0]]
        box(axes, left, 15, 8.5, 5, action, colour=colour, hatch=hatch)
        top, bottom = ((left + 4.2, 27.6), (left + 4.2, 20.4)), ((left + 4.2, 14.6), (left + 4.2, 8.6))
        for ends in (top, bottom):
            arrow(axes, *(ends if action[0] == "F" else ends[::-1]), color=colour)
        for y in (24.2, 11.6):
            word(axes, left + 6.4, y, "?", size=13, weight="bold", color=GREY)
    word(axes, 45, 32.2, "when does each message start, and who waits for it?", size=9.5)
    word(axes, 45, 3.4, "what does rank 1 keep between F and B, and no longer?", size=9.5)
    return figure
