"""The picture of part e: what two ranks hold of a transformer, and where messages may stand."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, PALE, arrow, box, drawing, word

__all__ = ["building"]

_COLUMNS = (
    ("tokens", 8.5),
    ("norm", 6),
    ("heads", 8.5),
    ("norm", 6),
    ("hidden units", 11),
    ("norm", 6),
    ("tokens", 8.5),
)
_WHOLE = "norm"


def building() -> Figure:
    """A block between the first matrix and the last, on two ranks; at each place between them stands a question."""
    figure, axes = drawing(8, 3.2)
    for rank, y in ((0, 20), (1, 6)):
        word(axes, 4.6, y + 2.5, f"rank {rank}", weight="bold")
        left = 9.4
        for number, (text, wide) in enumerate(_COLUMNS):
            colour = PALE if text == _WHOLE else COLOURS[rank]
            box(axes, left, y, wide, 5, text, colour=colour, size=8)
            if number:
                arrow(axes, (left - 2.1, y + 2.5), (left - 0.2, y + 2.5))
                if rank == 0:
                    word(axes, left - 1.2, 15.5, "?", size=13, weight="bold", color=GREY)
            left += wide + 2.3
    word(axes, 40, 29, "what travels between the ranks, forward and backward, and where?", size=9.5)
    word(axes, 40, 2.4, "what does a rank hold, and what does it keep between forward and backward?", size=9.5)
    return figure
