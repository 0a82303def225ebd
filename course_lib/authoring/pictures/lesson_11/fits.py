"""Pictures of part a: three numbers and the room for them, which cut takes from which, and a device that was full."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

__all__ = ["cuts", "full", "three"]

RED = OKABE_ITO["vermillion"]
# The three numbers, in one look on all pictures: colour and hatch.
_LOOKS = {
    "states": (OKABE_ITO["sky blue"], ""),
    "activations": (OKABE_ITO["orange"], "//"),
    "logits": (OKABE_ITO["green"], ".."),
}


def _number(axes: Axes, x: float, y: float, wide: float, high: float, name: str, *, size: float = 10.5) -> None:
    """A box of one of the three numbers."""
    colour, hatch = _LOOKS[name]
    box(axes, x, y, wide, high, name, colour=colour, hatch=hatch, size=size, pad=1.6)


def three() -> Figure:
    """Three boxes of one height, since nobody knows theirs yet, and the room of a device."""
    figure, axes = drawing(8, 3.3)
    notes = {
        "states": "belong to\nthe model",
        "activations": "of the layers,\nof each sequence",
        "logits": "scores of all tokens,\nof each sequence",
    }
    for place, (name, note) in enumerate(notes.items()):
        x = 3.5 + 16.5 * place
        _number(axes, x, 12, 13.5, 7, name)
        arrow(axes, (x + 6.75, 20), (x + 6.75, 27.4), style="<|-|>", color=GREY)
        word(axes, x + 9.2, 23.8, "?", size=15, weight="bold", color=RED)
        word(axes, x + 6.75, 7.6, note, size=9.5)
    box(axes, 58.5, 4, 14, 25, colour="white")
    axes.add_patch(Rectangle((58.5, 26.8), 14, 2.2, facecolor=PALE, edgecolor=GREY, hatch="xx"))
    word(axes, 65.5, 16, "the room\nof a device", size=10.5)
    word(axes, 65.5, 31, "CUDA, NCCL, holes", size=9, color=GREY)
    arrow(axes, (51.4, 15.5), (57.6, 15.5))
    return figure


def cuts() -> Figure:
    """Rows: the three numbers. Columns: the cuts. What is smaller for a rank is asked in every cell."""
    figure, axes = drawing(8, 3.2)
    columns = ("data", "data,\nsharding 3", "tensor", "pipeline,\nfirst stage", "computed\nagain")
    for place, name in enumerate(columns):
        word(axes, 24.5 + 11.6 * place, 28, name, size=10, weight="bold")
    for row, name in enumerate(_LOOKS):
        y = 17.6 - 7.4 * row
        _number(axes, 2.5, y, 14, 5.6, name)
        for place in range(len(columns)):
            box(axes, 19.2 + 11.6 * place, y, 10.6, 5.6, "?", colour="white", dash=":", size=13, ink=RED)
    return figure


def full() -> Figure:
    """A colleague's sum: two boxes in a device, half of it free; and the device as it was, over the brim."""
    figure, axes = drawing(8, 3)
    for left, title in ((6, "what he counted"), (44, "what happened")):
        word(axes, left + 14, 27.6, title, size=10.5, weight="bold")
        box(axes, left, 3, 28, 20.5, colour="white")
    _number(axes, 6, 3, 28, 8, "states")
    _number(axes, 6, 11, 28, 2.6, "activations", size=8.5)
    word(axes, 20, 18.6, "left over", size=10, color=GREY)
    axes.add_patch(Rectangle((44.7, 3.6), 26.6, 21.9, facecolor=PALE, edgecolor=RED, linewidth=1.8, linestyle="--"))
    word(axes, 58, 13.8, "?", size=24, weight="bold", color=RED)
    arrow(axes, (74.6, 3), (74.6, 23.5), style="<|-|>", color=INK)
    word(axes, 76.6, 13.2, "room", size=9.5, rotation=90)
    return figure
