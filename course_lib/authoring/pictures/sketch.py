"""What the drawings of several lessons share: a sheet, words, ranks, boxes, and colours that all eyes tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from course_lib.plot import OKABE_ITO
from course_lib.plot.style import line_colour, word_colour

__all__ = ["COLOURS", "GREY", "INK", "PALE", "Drawings", "Point", "arrow", "box", "drawing", "rank", "word"]

Drawings = dict[str, Callable[[], Figure | bytes]]  # by name; bytes are a PNG that is finished already
Point = tuple[float, float]

COLOURS = [OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple")]
INK, GREY, PALE = "#333333", "#6b6b6b", "#F4F4F4"
_OF_WORDS = {colour: word_colour(colour) for colour in OKABE_ITO.values()}


def drawing(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty sheet whose units are tenths of an inch."""
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10 * width), ylim=(0, 10 * height))
    axes.axis("off")
    return figure, axes


def word(axes: Axes, x: float, y: float, text: str, *, size: float = 10, **look: Any) -> None:
    """A text around a point; a ``color`` of the palette is darkened until the words can be read on the sheet."""
    look = {"ha": "center", "va": "center", "fontsize": size, "color": INK, **look}
    look["color"] = _OF_WORDS.get(look["color"], look["color"])
    axes.text(x, y, text, **look)


def rank(axes: Axes, x: float, y: float, number: int, *, radius: float = 3.4) -> None:
    """A rank: a circle in its colour, with its number."""
    axes.add_patch(Circle((x, y), radius, facecolor=COLOURS[number], edgecolor=INK, zorder=3))
    word(axes, x, y, f"rank {number}", size=9.5, color="black", zorder=4)


def box(
    axes: Axes, x: float, y: float, wide: float, high: float, text: str = "", *, colour: str = PALE, size: float = 9,
    ink: str = "black", hatch: str = "", edge: str = INK, dash: str = "-", drop: float = 0.1, pad: float = 1.2,
) -> None:  # fmt: skip
    """A rectangle with a text in its middle, ``drop`` below it; over a hatch, the text has a ground to be legible."""
    look: dict[str, Any] = {"facecolor": colour, "edgecolor": edge, "hatch": hatch, "linestyle": dash}
    axes.add_patch(Rectangle((x, y), wide, high, linewidth=1, **look))
    ground = {"facecolor": colour, "edgecolor": "none", "pad": pad} if hatch and text else None
    word(axes, x + wide / 2, y + high / 2 - drop, text, size=size, color=ink, bbox=ground)


def arrow(
    axes: Axes, start: Point, end: Point, *, style: str = "-|>", head: float = 12, gap: float = 0, **look: Any
) -> None:
    """An arrow from point to point, or a line where ``style`` is "-"; ``gap`` keeps it off both, in points.

    A pale ``color`` is darkened until it stands out from the sheet.
    """
    look = {"color": INK, "shrinkA": gap, "shrinkB": gap, **look}
    look["color"] = line_colour(look["color"])
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle=style, mutation_scale=head, **look))
