"""Pictures of part c: what a failure throws away, a checkpoint written beside training, and who is waited for."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

WORK, WRITE, LOST, RESTART = COLOURS[0], OKABE_ITO["orange"], PALE, OKABE_ITO["purple"]
RED, GREEN = OKABE_ITO["vermillion"], OKABE_ITO["green"]


def failure() -> Figure:
    """Work and checkpoints in turn, a failure in the middle of work, and the job again from the last checkpoint."""
    figure, axes = drawing(9.4, 2.7)
    low, high, x = 11.0, 6.0, 2.0
    for number in range(2):
        box(axes, x, low, 14, high, f"work {number + 1}", colour=WORK, size=10)
        box(axes, x + 14, low, 3, high, colour=WRITE, hatch="////")
        x += 17
    box(axes, x, low, 8, high, "work 3", colour=LOST, hatch="....", dash="--", size=10)
    fails = x + 8
    axes.plot((fails, fails), (low - 1.6, low + high + 1.8), color=RED, linewidth=2.4)
    word(axes, fails, low + high + 3.2, "a rank fails", size=11, color=RED, weight="bold")
    box(axes, fails, low, 6, high, colour="white", dash=":")
    word(axes, fails + 3, low + high / 2, "not yet\nnoticed", size=8.5)
    box(axes, fails + 6, low, 8, high, "start again,\nread", colour=RESTART, size=8.5)
    again = fails + 14
    box(axes, again, low, 14, high, "work 3", colour=WORK, size=10)
    box(axes, again + 14, low, 3, high, colour=WRITE, hatch="////")
    box(axes, again + 17, low, 9, high, "work 4", colour=WORK, size=10)
    arrow(axes, (x - 0.4, low - 0.4), (again + 0.4, low - 0.4), connectionstyle="arc3,rad=0.25")
    word(axes, (x + again) / 2, 5.0, "goes on from this checkpoint", size=9.5)
    arrow(axes, (2, 1.8), (91, 1.8), color=GREY)
    word(axes, 88, 3.4, "time", size=9, color=GREY)
    _key(axes, 2, 24, WRITE, "////", "a checkpoint is written")
    _key(axes, 62, 24, LOST, "....", "thrown away, and done again")
    return figure


def hidden() -> Figure:
    """A checkpoint that training waits for, and one whose bytes are copied first and written beside training."""
    figure, axes = drawing(9.4, 3.2)
    left, high = 17.0, 4.6
    word(axes, left - 1.5, 25.5, "training waits", ha="right", size=10.5, weight="bold")
    _row(axes, 23.2, ((left, 18, WORK, "", "work"), (left + 18, 14, WRITE, "////", "written to storage"),
                      (left + 32, 18, WORK, "", "work"), (left + 50, 14, WRITE, "////", "")), high)  # fmt: skip
    word(axes, left - 1.5, 15.8, "beside training:\nGPUs", ha="right", size=10.5, weight="bold")
    _row(axes, 13.5, ((left, 18, WORK, "", "work"), (left + 18, 2.6, GREEN, "xx", ""),
                      (left + 20.6, 18, WORK, "", "work"), (left + 38.6, 2.6, GREEN, "xx", ""),
                      (left + 41.2, 18, WORK, "", "work")), high)  # fmt: skip
    word(axes, left - 1.5, 10.0, "storage", ha="right", size=10.5, weight="bold")
    for start in (left + 20.6, left + 41.2):
        box(axes, start, 7.7, 14, high, "written", colour=WRITE, hatch="////", size=9.5)
        arrow(axes, (start - 1.3, 13.3), (start + 0.6, 12.5), head=9)
    word(axes, left + 19.3, 20.4, "copied to host memory", size=9)
    arrow(axes, (left + 19.3, 19.7), (left + 19.3, 18.4), head=8)
    arrow(axes, (left + 41.2 + 14, 3.4), (left + 41.2 + 14, 7.5), head=9, color=RED)
    word(
        axes,
        left + 41.2 + 13.2,
        4.0,
        "only from here does this checkpoint count",
        ha="right",
        size=10,
        color=RED,
    )
    arrow(axes, (left, 1.2), (91, 1.2), color=GREY)
    word(axes, 88, 2.8, "time", size=9, color=GREY)
    return figure


def slowest() -> Figure:
    """Eight ranks compute for about the same time, and all wait for the one that takes longest."""
    figure, axes = drawing(8, 3.4)
    ends = (1.2, 4.4, 0.4, 2.1, 11.5, 0.9, 3.0, 6.2)
    left, wide = 12.0, 42.0
    last = left + wide + max(ends)
    for number, end in enumerate(ends):
        y = 28.5 - 3.4 * number
        word(axes, left - 1, y + 1.3, f"rank {number}", ha="right", size=9.5)
        box(axes, left, y, wide + end, 2.7, colour=WORK)
        if number != 4:
            box(axes, left + wide + end, y, last - left - wide - end, 2.7, colour="white", dash=":", edge=GREY)
        box(axes, last, y, 6, 2.7, colour=GREEN, hatch="xx")
    word(axes, left + wide / 2, 32.4, "computing", size=10)
    axes.plot((last, last), (3.6, 32.4), color=RED, linewidth=1.8)
    word(axes, last + 0.8, 32.4, "all-reduce", ha="left", size=10)
    word(axes, last - 1, 32.4, "waiting", ha="right", size=10, color=GREY)
    arrow(axes, (left, 2.2), (77, 2.2), color=GREY)
    word(axes, 74.5, 0.8, "time", size=9, color=GREY)
    return figure


Piece = tuple[float, float, str, str, str]  # from, how wide, colour, hatch, text


def _row(axes: Axes, y: float, pieces: tuple[Piece, ...], high: float) -> None:
    for x, wide, colour, hatch, text in pieces:
        box(axes, x, y, wide, high, text, colour=colour, hatch=hatch, size=9.5)


def _key(axes: Axes, x: float, y: float, colour: str, hatch: str, text: str) -> None:
    box(axes, x, y - 1, 3.4, 2, colour=colour, hatch=hatch)
    word(axes, x + 4.4, y - 0.1, text, ha="left", size=9.5)
