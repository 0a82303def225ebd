"""The pictures of parts f and g: what is to be built, and the row of a unit whose memory comes and goes."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.lesson_05.states import kind
from course_lib.authoring.pictures.sketch import COLOURS, GREY, arrow, box, drawing, rank, word

__all__ = ["emptied", "optimizer", "wrapper"]

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


def optimizer() -> Figure:
    """Three weights of unequal size, and two ranks that keep states of a part each: where is the cut, what is sent?"""
    figure, axes = drawing(8, 3.6)
    for x, title in ((19.5, "gradients, on each rank"), (45.5, "this rank's part"), (69, "weights, on each rank")):
        word(axes, x, 34, title, weight="bold")
    for number in range(2):
        y = 21.4 - 13.4 * number
        rank(axes, 4.4, y + 2.4, number)
        for left, wide in ((0, 10.6), (10.6, 3), (13.6, 6)):
            kind(axes, 9.6 + left, y, wide, 4.8, "gradients")
            kind(axes, 59.2 + left, y, wide, 4.8, "weights")
        box(axes, 39, y - 2.4, 13, 9.6, colour="white", dash="--", edge=GREY)
        kind(axes, 40.4, y - 1.4, 10.2, 3.6, "optimizer states", "states", size=8)
        word(axes, 45.5, y + 4.8, "? numbers", size=9.5)
        for start, end in ((29.6, 38.6), (52.4, 58.8)):
            arrow(axes, (start, y + 2.4), (end, y + 2.4), color=GREY)
    for x, asked in ((34.1, "?"), (55.6, "?")):
        word(axes, x, 17.8, asked, size=18, weight="bold", color=GREY)
    word(axes, 19.5, 2, "where is the cut?", size=9.5)
    word(axes, 45.5, 2, "what travels before the step, and what after it?", size=9.5)
    return figure


def wrapper() -> Figure:
    """Three units on one of two ranks over a step: halves are kept; what is whole, and in flight, is the question."""
    figure, axes = drawing(8, 3.5)
    names = ("kept", "computing", "whole", "on its way")
    for row, name in enumerate(names):
        word(axes, 2, 25.6 - 7 * row + 2.2, name, ha="left")
    steps = (("F", 0), ("F", 1), ("F", 2), ("B", 2), ("B", 1), ("B", 0))
    for place, (pass_, unit) in enumerate(steps):
        left = 16 + 10.4 * place
        for number in range(3):
            box(axes, left + 3.2 * number, 25.6, 1.5, 4.4, colour=COLOURS[number])
        box(axes, left, 18.6, 9.8, 4.4, f"{pass_}{unit}", colour=COLOURS[unit], hatch="//" if pass_ == "B" else "")
        for y in (11.6, 4.6):
            box(axes, left, y, 9.8, 4.4, "?", colour="white", dash=":", edge=GREY, size=11, ink=GREY)
    word(axes, 47, 33, "rank 0 of two, a model of three units: forward, then backward", weight="bold")
    word(axes, 47, 1.8, "its half of each unit, always; what else, and when?", size=9.5)
    return figure
