"""Picture of part c: a trial on a quiet machine and on a busy one, and pairs side by side."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

_A, _B, _OTHER = COLOURS[0], COLOURS[1], "#DDDDDD"


def disturbed() -> Figure:
    """Three timelines: quiet, disturbed, and pairs."""
    figure, axes = drawing(8, 3.5)
    _line(axes, 25.5, "a quiet machine", ((10, "A", _A), (13, "B", _B)), "A is faster")
    _line(
        axes,
        15.5,
        "another program",
        ((6, "A", _A), (16, "", _OTHER), (4, "A", _A), (13, "B", _B)),
        "B is faster?",
    )
    pairs = [part for _ in range(4) for part in ((4.2, "A", _A), (5.4, "B", _B))]
    pairs.insert(3, (6.0, "", _OTHER))
    _line(axes, 5.5, "pairs", tuple(pairs), "a middle of ratios")
    arrow(axes, (18, 2), (62, 2), color=GREY)
    word(axes, 40, 0.9, "time", size=9.5, color=GREY)
    return figure


def _line(axes: Axes, y: float, name: str, parts: tuple[tuple[float, str, str], ...], said: str) -> None:
    word(axes, 16.6, y + 2.5, name, size=10.5, ha="right", weight="bold")
    x = 18.0
    for wide, text, colour in parts:
        hatch = "///" if colour == _OTHER else ""
        box(axes, x, y, wide, 5, text, colour=colour, hatch=hatch, size=11, edge=INK)
        x += wide
    word(axes, 64.5, y + 2.5, said, size=10.5, ha="left", color=OKABE_ITO["vermillion"] if "?" in said else INK)
