"""The picture of part d: a wrapper around a model, and what is not known yet of its messages."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import GREY, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

__all__ = ["build"]

_BLUE, _ORANGE, _GREEN = (OKABE_ITO[name] for name in ("sky blue", "orange", "green"))
_LAYERS = 4


def build() -> Figure:
    """Two ranks with a backward pass each, layer by layer; between them messages that are question marks."""
    figure, axes = drawing(8, 3.6)
    for x, title in ((15.5, "forward"), (36, "backward, layer by layer"), (65.5, "backward() returns")):
        word(axes, x, 34.2, title, weight="bold")
    for number, y in ((0, 26), (1, 5)):
        rank(axes, 5, y + 2.4, number)
        box(axes, 10, y, 11, 4.8, "its half of\nthe batch", colour=_BLUE, size=8)
        for layer in range(_LAYERS):
            box(axes, 23 + 6.8 * layer, y, 6.6, 4.8, f"layer {_LAYERS - layer}", colour=_ORANGE, size=8)
        box(axes, 58, y, 20, 4.8, "every gradient:\nthe mean of both", colour=_GREEN, size=8.5)
    box(axes, 22, 12.2, 33, 12.4, colour="white", dash="--", edge=GREY)
    for layer in range(_LAYERS):
        x = 26.3 + 6.8 * layer
        arrow(axes, (x, 25.8), (x, 22.2), color=GREY)
        arrow(axes, (x, 10), (x, 14.6), color=GREY)
        word(axes, x, 18.4, "?", size=18, weight="bold", color=GREY)
    for y in (26, 9.8):
        arrow(axes, (55.2, 18.4), (66, y), color=GREY)
    word(axes, 70.5, 18.4, "who waits, and when?", size=9)
    word(axes, 38.5, 1.8, "your class: which gradients travel together, and when do they leave?", size=9.5)
    return figure
