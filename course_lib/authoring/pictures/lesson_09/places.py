"""Pictures of part a: the places of eight ranks, and two orders of axes on two nodes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from course_lib.authoring.pictures.sketch import (
    COLOURS,
    GREY,
    INK,
    PALE,
    Point,
    arrow,
    box,
    drawing,
    rank,
    word,
)
from course_lib.plot import OKABE_ITO

BLUE, ORANGE, RED = (OKABE_ITO[name] for name in ("sky blue", "orange", "vermillion"))
_CORNER: Point = (21.0, 6.0)  # where rank 0 stands
_STEPS: tuple[Point, Point, Point] = ((11.0, 7.5), (0.0, 13.5), (17.0, 0.0))  # along pp, dp_shard and tp


def _spot(place: tuple[int, int, int]) -> Point:
    x, y = _CORNER
    for number, (right, up) in zip(place, _STEPS, strict=True):
        x, y = x + number * right, y + number * up
    return x, y


def _edge(axes: Axes, start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
    is_hidden = (1, 0, 0) in (start, end)
    line, colour = (":", GREY) if is_hidden else ("-", INK)
    arrow(axes, _spot(start), _spot(end), style="-", linewidth=1.2, zorder=1, linestyle=line, color=colour)


def places() -> Figure:
    """Eight ranks at the corners of a box: ranks 0 and 1 are known."""
    figure, axes = drawing(8, 3.4)
    corners = [(p, d, t) for p in range(2) for d in range(2) for t in range(2)]
    for here in corners:
        for axis in range(3):
            if not here[axis]:
                there = tuple(1 if axis == other else number for other, number in enumerate(here))
                _edge(axes, here, (there[0], there[1], there[2]))
    for here in sorted(corners, reverse=True):
        number = {(0, 0, 0): "0", (0, 0, 1): "1"}.get(here, "?")
        colour = "white" if number == "?" else COLOURS[0]
        axes.add_patch(Circle(_spot(here), 2.3, facecolor=colour, edgecolor=INK, zorder=3))
        word(axes, *_spot(here), number, size=11, color="black", zorder=4, weight="bold")
    x, y = _CORNER
    for text, right, up in (("tp", 8.5, -2.6), ("dp_shard", -7.2, 6.8), ("pp", 24.6, 2.2)):
        word(axes, x + right, y + up, text, size=11, weight="bold", color=RED)
    word(axes, 56, 27, "pp=2  dp_shard=2  tp=2", ha="left", size=11, family="monospace")
    for row, text in enumerate(("pp: stages of a pipeline", "dp_shard: weights and samples", "tp: parts of a layer")):
        word(axes, 56, 21 - 4 * row, text, ha="left", size=9.5)
    word(axes, 56, 6.5, "the last axis varies fastest", ha="left", size=9.5, color=GREY)
    return figure


def _nodes(axes: Axes, left: float, inside: str, between: str) -> None:
    for node in range(2):
        x = left + 20.5 * node
        box(axes, x, 3, 13, 20.5, colour=PALE, edge=GREY)
        word(axes, x + 6.5, 26, f"node {node}", size=9.5, weight="bold")
        arrow(axes, (x + 6.5, 17.5), (x + 6.5, 9.3), style="-", linewidth=5, color=BLUE, zorder=1)
        word(
            axes,
            x + 6.5,
            13.2,
            inside,
            size=8.5,
            zorder=5,
            bbox={"facecolor": PALE, "edgecolor": "none", "pad": 1},
        )
        for place in range(2):
            rank(axes, x + 6.5, 19 - 11.8 * place, 2 * node + place, radius=2.9)
    for y in (19, 7.2):
        arrow(
            axes,
            (left + 9.6, y),
            (left + 24, y),
            style="-",
            linewidth=1.4,
            color=RED,
            linestyle="--",
            zorder=1,
        )
    word(axes, left + 16.8, 13.2, between, size=7.5, color=RED)


def nodes() -> Figure:
    """Two nodes of two ranks, the axes in two orders: one axis has the links inside, the other those between."""
    figure, axes = drawing(8, 3.5)
    for left, inside, between in ((3, "tp", "dp_replicate"), (43.5, "dp_replicate", "tp")):
        _nodes(axes, left, inside, between)
        order = "dp_replicate, tp" if inside == "tp" else "tp, dp_replicate"
        word(axes, left + 16.8, 31, order, size=11, weight="bold")
    return figure
