"""Pictures of part b: where the time of a step goes, and the two nodes of the bet."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

BLUE, ORANGE, GREEN, PURPLE, RED = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple", "vermillion"))
_ROW_HIGH = 5.0
_FORWARD, _BACKWARD = 5.4, 10.8  # wide
_SUM = 0.7  # a stripe: a sum of tp


def _pass(axes: Axes, x: float, y: float, wide: float, text: str) -> None:
    """A pass of a micro-batch, with a stripe for each sum of tp."""
    box(axes, x, y, wide, _ROW_HIGH, colour=BLUE if text[0] == "F" else ORANGE)
    for stripe in range(2):
        box(axes, x + wide * (stripe + 1) / 2 - _SUM, y, _SUM, _ROW_HIGH, colour=RED, hatch="////")
    word(axes, x + (wide / 2 - _SUM) / 2, y + _ROW_HIGH / 2 - 0.1, text, size=8.5, color="black")


def parts() -> Figure:
    """Two stages, three micro-batches: computing, sums of tp, messages, gaps, and gradients at the end."""
    figure, axes = drawing(9.8, 3.6)
    left, hop, top, low = 11.0, 1.6, 28.0, 18.5
    word(axes, 9.5, top + _ROW_HIGH / 2, "stage 0", ha="right", size=10)
    word(axes, 9.5, low + _ROW_HIGH / 2, "stage 1", ha="right", size=10)
    first, second = left, left + _FORWARD + hop  # 1F1B: where the next pass of a stage may begin
    forwards, backwards = [], []
    for number in range(2):
        forwards.append(first + number * _FORWARD)
    for number in range(3):
        ready = forwards[number] + _FORWARD + hop if number < len(forwards) else second
        second = max(second, ready)
        _pass(axes, second, low, _FORWARD, f"F{number}")
        arrow(axes, (forwards[number] + _FORWARD, top), (second, low + _ROW_HIGH), head=8)
        _pass(axes, second + _FORWARD, low, _BACKWARD, f"B{number}")
        second += _FORWARD + _BACKWARD
        backwards.append(max(second + hop, (backwards[-1] if backwards else 0) + _BACKWARD))
        arrow(axes, (second, low + _ROW_HIGH), (second + hop, top), head=8)
        if number == 0:
            forwards.append(backwards[0] + _BACKWARD)
    for number, x in enumerate(forwards):
        _pass(axes, x, top, _FORWARD, f"F{number}")
    ends = []
    for number, x in enumerate(backwards):
        begin = max(x, forwards[2] + _FORWARD) if number else x
        _pass(axes, begin, top, _BACKWARD, f"B{number}")
        ends.append(begin + _BACKWARD)
    for end, y in ((ends[-1], top), (second, low)):
        box(axes, end, y, 9.0, _ROW_HIGH, "gradients", colour=GREEN, hatch="..", size=9)
    _legend(axes)
    arrow(axes, (left, 15.2), (ends[-1] + 9, 15.2), color=GREY)
    word(axes, ends[-1] + 6.5, 13.4, "time", size=9, color=GREY)
    return figure


def _legend(axes: Axes) -> None:
    names = (
        (BLUE, "", "computing, forward"),
        (ORANGE, "", "computing, backward"),
        (RED, "////", "sums of tp"),
        ("white", "", "bubble of pp"),
        (GREEN, "..", "gradients of dp"),
    )
    for place, (colour, hatch, name) in enumerate(names):
        x, y = 12 + 26 * (place % 3), 7.2 - 4.2 * (place // 3)
        box(axes, x, y, 3, 2.6, colour=colour, hatch=hatch)
        word(axes, x + 4, y + 1.2, name, ha="left", size=9.5)
    arrow(axes, (64.2, 4.3), (66.8, 4.3), head=9)
    word(axes, 68, 4.2, "messages of pp", ha="left", size=9.5)


def bet() -> Figure:
    """Two nodes of two ranks, and seven plans with a box each."""
    figure, axes = drawing(8, 3.4)
    for node in range(2):
        x = 3 + 21 * node
        box(axes, x, 4, 13, 21, colour=PALE, edge=GREY)
        word(axes, x + 6.5, 27.6, f"node {node}", size=10, weight="bold")
        arrow(axes, (x + 6.5, 18.5), (x + 6.5, 10.5), style="-", linewidth=7, color=BLUE, zorder=1)
        for place in range(2):
            rank(axes, x + 6.5, 20 - 11.5 * place, 2 * node + place, radius=3.0)
        ground = {"facecolor": PALE, "edgecolor": "none", "pad": 1.5}
        word(axes, x + 6.5, 14.3, "20 MB/s", size=9, zorder=5, bbox=ground)
    for y in (20.0, 8.5):
        arrow(axes, (12.5, y), (27.5, y), style="-", linewidth=1.2, color=RED, linestyle="--", zorder=1)
    word(axes, 20, 14.3, "2 MB/s", size=9, color=RED)
    plans = (
        "dp_replicate=4",
        "dp_shard=4",
        "tp=4",
        "pp=4",
        "dp_replicate=2 tp=2",
        "pp=2 dp_replicate=2",
        "pp=2 tp=2",
    )
    word(axes, 46, 30.6, "your bet?", ha="left", size=11, weight="bold")
    for place, name in enumerate(plans):
        y = 26.4 - 3.9 * place
        box(axes, 46, y - 1.2, 2.4, 2.4, colour="white")
        word(axes, 50, y, name, ha="left", size=10, family="monospace")
    return figure
