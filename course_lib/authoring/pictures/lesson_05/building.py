"""The picture of part g: the row of a unit over a step, whose memory comes and goes."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, arrow, box, drawing, word

__all__ = ["emptied"]

_MOMENTS = (
    ("between steps", False),
    ("its forward", True),
    ("after it", False),
    ("its backward", True),
    ("between steps", False),
)
_WIDE, _OWN = 2.9, 1


def emptied() -> Figure:
    """The four parts of a unit's row on rank 1; what autograd has saved points at an empty place meanwhile."""
    figure, axes = drawing(8, 2.4)
    for number, (moment, is_whole) in enumerate(_MOMENTS):
        left = 1.6 + 15.8 * number
        word(axes, left + 2 * _WIDE, 21.2, moment, size=10, weight="bold")
        for part in range(4):
            here = is_whole or part == _OWN
            look = {"colour": COLOURS[part]} if here else {"colour": "white", "edge": "#BBBBBB", "dash": ":"}
            box(axes, left + _WIDE * part, 12.6, _WIDE, 5.2, str(part) if here else "", size=9, **look)
        if number:
            arrow(axes, (left - 3.6, 15.2), (left - 0.5, 15.2))
    left = 1.6 + 15.8 * 2
    word(axes, left + 2 * _WIDE, 3.2, "what autograd has saved", size=9, color=GREY)
    arrow(axes, (left + 2 * _WIDE, 5.2), (left + 2.5 * _WIDE, 12.0))
    word(axes, left + 4.6 * _WIDE, 8.4, "?", weight="bold", size=13)
    return figure
