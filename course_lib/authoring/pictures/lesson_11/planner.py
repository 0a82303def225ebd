"""The picture of part e: what a planner is given, what it says, and runs that judge it; it asks."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, PALE, arrow, box, drawing, word

__all__ = ["planner"]

_GIVEN = (("a job", "sizes, tokens, batch"), ("machines", "rates, memory, links"))
_LAYOUTS = ("tp8 pp16 dp64", "tp4 pp16 dp128", "tp8 pp8 dp128")


def _row(axes: Axes, y: float, left: str, cells: tuple[str, ...], colour: str) -> None:
    box(axes, 47.0, y, 19.0, 3.6, left, colour=colour, size=9)
    for number, text in enumerate(cells):
        box(axes, 67.0 + 11.0 * number, y, 10.0, 3.6, text, colour=PALE, size=9.5)


def planner() -> Figure:
    """A job and machines go in, layouts come out in an order; beside published runs stand their measured seconds."""
    figure, axes = drawing(10.2, 3.8)
    for number, (name, says) in enumerate(_GIVEN):
        y = 26.0 - 9.0 * number
        box(axes, 2.0, y, 17.0, 6.6, f"{name}\n{says}", colour=COLOURS[0], size=9)
        arrow(axes, (19.4, y + 3.3), (25.6, 24.8))
    box(axes, 26.0, 18.6, 14.0, 12.4, "your planner\n\n?", colour=COLOURS[1], size=10.5)
    arrow(axes, (40.4, 27.0), (46.4, 29.0))
    arrow(axes, (40.4, 22.0), (46.4, 10.0))
    for number, text in enumerate(("GB", "seconds", "place")):
        word(axes, 72.0 + 11.0 * number, 35.4, text, size=9.5, color=GREY)
    for number, layout in enumerate(_LAYOUTS):
        _row(axes, 30.0 - 4.2 * number, layout, ("?", "?", "?"), COLOURS[2])
    word(axes, 56.5, 35.4, "layouts that fit", size=9.5, color=GREY)
    word(axes, 56.5, 14.6, "runs of others", size=9.5, color=GREY)
    for number, text in enumerate(("you", "measured", "error")):
        word(axes, 72.0 + 11.0 * number, 14.6, text, size=9.5, color=GREY)
    for number, run in enumerate(("run 1", "run 2")):
        _row(axes, 9.2 - 4.2 * number, run, ("?", "kept back", "?"), COLOURS[3])
    word(axes, 22.0, 8.0, "How near is it to runs\nthat it has never seen?", size=9.5)
    return figure
