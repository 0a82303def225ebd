"""What the drawings of several lessons share: a sheet, words, ranks, boxes, and colours that all eyes tell apart."""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from course_lib.plot import OKABE_ITO

COLOURS = [OKABE_ITO[name] for name in ("sky blue", "orange", "green", "yellow")]
INK, GREY, PALE = "#333333", "#777777", "#F4F4F4"

matplotlib.rcParams["font.family"] = "DejaVu Sans"


def drawing(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty sheet whose units are tenths of an inch."""
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10 * width), ylim=(0, 10 * height))
    axes.axis("off")
    return figure, axes


def word(axes: Axes, x: float, y: float, text: str, *, size: float = 10, **more: object) -> None:
    axes.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": size, "color": INK, **more})


def rank(axes: Axes, x: float, y: float, number: int, *, radius: float = 3.4) -> None:
    axes.add_patch(Circle((x, y), radius, facecolor=COLOURS[number], edgecolor=INK, zorder=3))
    word(axes, x, y, f"rank {number}", size=9.5, color="black", zorder=4)


def box(
    axes: Axes, x: float, y: float, wide: float, high: float, text: str = "", *, colour: str = PALE, size: float = 9,
    hatch: str = "", edge: str = INK, dash: str = "-",
) -> None:  # fmt: skip
    """A rectangle with a text in its middle, legible over a hatch."""
    axes.add_patch(
        Rectangle(
            (x, y), wide, high, facecolor=colour, edgecolor=edge, hatch=hatch, linestyle=dash, linewidth=1
        )
    )
    ground = {"facecolor": colour, "edgecolor": "none", "pad": 1.2} if hatch and text else None
    word(axes, x + wide / 2, y + high / 2 - 0.1, text, size=size, color="black", bbox=ground)


def line(axes: Axes, start: tuple[float, float], end: tuple[float, float], *, style: str = "-|>") -> None:
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle=style, mutation_scale=12, color=INK, shrinkA=0, shrinkB=0)
    )
