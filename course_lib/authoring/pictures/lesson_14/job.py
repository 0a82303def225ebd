"""Pictures of part a: a job with what is given for it, and what is looked at when it has run."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, INK, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

__all__ = ["job", "scored"]

BLUE, ORANGE, GREEN, RED, PURPLE = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "vermillion", "purple"))


def _model(axes: Axes) -> None:
    """What a training holds, as a pile, beside the room that one rank has."""
    word(axes, 11, 34.2, "a model", weight="bold", size=11)
    parts = (
        (7.6, "optimizer\nstates", GREEN, "\\\\"),
        (4.0, "gradients", ORANGE, "//"),
        (4.0, "weights", BLUE, ""),
        (6.4, "activations", RED, "..",),
    )  # fmt: skip
    y = 6.0
    for high, text, colour, hatch in parts:
        box(axes, 4, y, 14, high, text, colour=colour, hatch=hatch)
        y += high
    arrow(axes, (2, 12.8), (29, 12.8), style="-", linewidth=1.6, linestyle="--", color=INK, zorder=5)
    word(axes, 24.4, 14.6, "room on a rank", size=9)


def job() -> Figure:
    """A pile higher than a rank's room, two nodes of two ranks, and a step that must end in time."""
    figure, axes = drawing(9.6, 3.7)
    _model(axes)
    for node in range(2):
        x = 36 + 19 * node
        box(axes, x, 6, 12, 22, colour=PALE, edge=GREY)
        word(axes, x + 6, 30.2, f"node {node}", size=10)
        arrow(axes, (x + 6, 22), (x + 6, 12), style="-", linewidth=7, color=BLUE, zorder=1)
        for place in range(2):
            rank(axes, x + 6, 22.4 - 11 * place, 2 * node + place, radius=3.0)
    for y in (22.4, 11.4):
        arrow(axes, (45, y), (58, y), style="-", linewidth=1.2, color=RED, linestyle="--", zorder=1)
    word(axes, 51.5, 34.2, "a cluster", weight="bold", size=11)
    word(axes, 83, 34.2, "a budget", weight="bold", size=11)
    arrow(axes, (72.5, 9), (94.5, 9), color=GREY)
    word(axes, 91.5, 6.8, "time", size=9, color=GREY)
    for place, (high, wide) in enumerate(((24.0, 13.0), (18.6, 17.6), (13.2, 15.0))):
        box(
            axes,
            73,
            high,
            wide,
            3.6,
            "a step" if place == 0 else "?",
            colour=PURPLE if place == 0 else "white",
        )
    arrow(axes, (88.2, 10), (88.2, 29), style="-", linewidth=1.6, linestyle="--", color=INK, zorder=5)
    word(axes, 88.2, 30.2, "at the latest", size=9)
    return figure


_LOOKED_AT = (
    ("values", "the whole model after some\nsteps, beside one device", BLUE, ""),
    ("memory", "the fullest rank at its\nfullest moment, by part", GREEN, "\\\\"),
    ("bytes", "what all ranks send,\nand between nodes", ORANGE, "//"),
    ("time", "computing and messages of a\nstep, beside real runs", PURPLE, ""),
)


def scored() -> Figure:
    """Four things that are measured while the steps run, and one page at the end."""
    figure, axes = drawing(9.6, 2.5)
    wide, gap = 17.4, 1.9
    for place, (text, beside, colour, hatch) in enumerate(_LOOKED_AT):
        x = 2.0 + place * (wide + gap)
        box(axes, x, 12.6, wide, 7.4, text, colour=colour, hatch=hatch, size=12)
        word(axes, x + wide / 2, 7.2, beside, size=9)
    arrow(axes, (78.6, 16.3), (82.6, 16.3), head=15, linewidth=1.8)
    box(axes, 83.4, 9.4, 10.4, 13, colour="white")
    for line in range(3):
        box(axes, 85, 18.8 - 2.1 * line, 7.2 - 1.5 * line, 0.9, colour=PALE, edge=GREY)
    box(axes, 85, 10.8, 7.2, 2.9, colour=BLUE)
    word(axes, 88.6, 6.6, "your report", size=9)
    return figure
