"""Pictures of evidence: how to read a timeline, spans of a rank that overlap, and the order in which to look."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

_BLUE, _RED, _PURPLE = (OKABE_ITO[name] for name in ("sky blue", "vermillion", "purple"))
_VERMILLION_PALE = "#F0B08A"  # a ground that black letters stand out from
_LEFT, _UNIT = 15.0, 5.2  # of the time axis


def _bar(axes: Axes, row: float, begin: float, end: float, colour: str, text: str = "", hatch: str = "") -> None:
    box(axes, _LEFT + _UNIT * begin, row, _UNIT * (end - begin), 2.6, text, colour=colour, hatch=hatch)


def timeline() -> Figure:
    """Two ranks, computing above and communication below; what is hidden, exposed and idle on one of them."""
    figure, axes = drawing(8, 3.1)
    for row, text in ((21.0, "rank 0"), (8.0, "rank 1")):
        word(axes, _LEFT - 1.6, row + 0.6, text, ha="right", size=10)
    for begin, end in ((0.0, 4.6), (6.6, 8.6)):
        _bar(axes, 21.0, begin, end, _BLUE, "computing")
    for begin, end in ((0.0, 2.0), (6.6, 9.6)):
        _bar(axes, 8.0, begin, end, _BLUE, "computing")
    for row, begin in ((17.6, 3.0), (4.6, 2.0)):
        _bar(axes, row, begin, 6.6, _VERMILLION_PALE, "all-reduce", hatch="//")
    for begin, end, text in ((3.0, 4.6, "hidden"), (4.6, 6.6, "exposed"), (8.6, 9.6, "idle")):
        left, right = (_LEFT + _UNIT * moment for moment in (begin + 0.06, end - 0.06))
        arrow(axes, (left, 26.0), (right, 26.0), style="<|-|>", head=9, color=GREY)
        word(axes, (left + right) / 2, 28.2, text, size=9.5)
    for begin, end, text in ((2.0, 3.0, "rank 0 is not\nthere yet"), (3.0, 6.6, "bytes travel")):
        left, right = (_LEFT + _UNIT * moment for moment in (begin + 0.06, end - 0.06))
        arrow(axes, (left, 12.2), (right, 12.2), style="<|-|>", head=9, color=GREY)
        word(axes, (left + right) / 2, 14.6 if "\n" in text else 14.0, text, size=9.5)
    arrow(axes, (_LEFT - 0.6, 3.2), (_LEFT + _UNIT * 11.6, 3.2), color=GREY)
    word(axes, _LEFT + _UNIT * 11.6 - 1, 1.3, "time", size=9.5, color=GREY)
    return figure


def spans() -> Figure:
    """Computing above, communication below a time axis; overlapping, nested, touching."""
    figure, axes = drawing(8, 2.9)
    for row, text in ((21.6, "computing"), (12.0, "communication"), (4.6, "data")):
        word(axes, _LEFT - 1.6, row + 1.3, text, ha="right", size=10)
    for begin, end in ((1.6, 4.4), (4.4, 6.0), (8.6, 10.2)):
        _bar(axes, 21.6, begin, end, _BLUE)
    for row, begin, end in (
        (13.6, 0.6, 2.4),
        (10.2, 3.4, 7.4),
        (13.6, 5.0, 6.6),
        (13.6, 8.0, 11.4),
        (10.2, 9.2, 9.9),
    ):
        _bar(axes, row, begin, end, _RED, hatch="//")
    _bar(axes, 4.6, 0.0, 1.6, _PURPLE, hatch="..")
    arrow(axes, (_LEFT - 0.6, 3.2), (_LEFT + _UNIT * 12, 3.2), color=GREY)
    word(axes, _LEFT + _UNIT * 12 - 1, 1.3, "time", size=9.5, color=GREY)
    return figure


_LOOKS = (
    ("1", "useful\narithmetic", "beside how long\nranks compute"),
    ("2", "memory", "beside what\na device has"),
    ("3", "who waits\nfor whom", "at which box,\nand who does not wait"),
    ("4", "bytes\nby link", "beside what the\nlink carries in a step"),
)


def looks() -> Figure:
    """Four looks, one after the other."""
    figure, axes = drawing(8, 2.3)
    wide, gap = 15.5, 4.0
    for place, (number, text, beside) in enumerate(_LOOKS):
        x = 3.0 + place * (wide + gap)
        box(axes, x, 9.4, wide, 9.0, text, colour=PALE, size=11)
        word(axes, x + 1.5, 16.7, number, size=10, weight="bold", color=OKABE_ITO["blue"])
        word(axes, x + wide / 2, 4.6, beside, size=9.5, color=INK)
        if place:
            arrow(axes, (x - gap + 0.5, 13.9), (x - 0.5, 13.9), head=14, linewidth=1.8)
    return figure
