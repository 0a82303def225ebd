"""Pictures of the state of a model on several ranks: who holds what, and what a step does with it."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO
from course_lib.plot.style import LABEL_LOOKS

RED = OKABE_ITO["vermillion"]
_KINDS = {
    "weights": LABEL_LOOKS["parameter"],
    "gradients": LABEL_LOOKS["gradient"],
    "optimizer states": LABEL_LOOKS["optimizer state"],
}


def kind(
    axes: Axes, x: float, y: float, wide: float, high: float, of: str, text: str = "", *, size: float = 9.5
) -> None:
    """A box of one kind of state, in the ledger's colour and hatch."""
    look = _KINDS[of]
    ink = "white" if of == "weights" else "black"
    box(axes, x, y, wide, high, text, colour=look.colour, hatch=look.hatch, size=size, ink=ink, pad=1.6)


def four_times() -> Figure:
    """Four ranks with weights, gradients and optimizer states each, and the question which of them to drop."""
    figure, axes = drawing(8, 3.5)
    for row, name in enumerate(_KINDS):
        word(axes, 15.5, 18.2 - 6.4 * row, name, ha="right", size=10.5)
        for number in range(4):
            kind(axes, 18.5 + 12 * number, 15.8 - 6.4 * row, 9, 5, name)
    for number in range(4):
        rank(axes, 23 + 12 * number, 28.4, number)
    axes.add_patch(Rectangle((16.8, 1.6), 48.4, 20.6, facecolor="none", edgecolor=RED, linewidth=1.4, linestyle="--"))
    word(axes, 72.6, 14.6, "?", size=24, weight="bold", color=RED)
    word(axes, 72.6, 8.2, "which numbers\nare there\ntoo often", size=9.5)
    return figure


def half_each() -> Figure:
    """A step of two ranks, each with half of the optimizer states: what is sent, and when, is the question."""
    figure, axes = drawing(8, 3.5)
    titles = {
        19.5: "gradients of\nits own samples",
        41: "its half: gradient,\nweights, states",
        69: "the weights\nafter the step",
    }
    for x, title in titles.items():
        word(axes, x, 31.4, title, weight="bold", size=10)
    for number in range(2):
        y = 17.4 - 13 * number
        rank(axes, 5, y + 4, number)
        for half in range(2):
            kind(axes, 11.5 + 8 * half, y, 8, 8, "gradients", f"half {half}", size=9)
            kind(axes, 61 + 8 * half, y, 8, 8, "weights", f"half {half}", size=9)
        left = 35.2
        kind(axes, left, y + 5.6, 11.6, 3.4, "gradients", f"half {number}", size=8.5)
        kind(axes, left, y + 2.2, 11.6, 3.4, "weights", f"half {number}", size=8.5)
        kind(axes, left, y - 1.2, 11.6, 3.4, "optimizer states", f"half {number}", size=8.5)
        arrow(axes, (28, y + 4), (34.6, y + 4))
        arrow(axes, (47.4, y + 4), (60.4, y + 4))
        word(axes, 50.7, y + 5.4, "AdamW", size=9)
    for x in (31.2, 56.6):
        axes.add_patch(Rectangle((x - 1.7, 3.2), 3.4, 23.4, facecolor=RED, edgecolor=INK, zorder=3))
        word(axes, x, 15, "?", size=17, weight="bold", color="white", zorder=4)
    return figure


def early() -> Figure:
    """Backward goes from the last layer to the first: of the gradients behind it a rank keeps its part."""
    figure, axes = drawing(8, 2.9)
    word(axes, 9, 21.4, "gradients on\nrank 0", size=10.5)
    word(axes, 9, 8.6, "layers", size=10.5)
    for number in range(4):
        x = 18 + 14.5 * number
        box(axes, x, 6.2, 12, 5, f"layer {number + 1}", colour=PALE, size=10)
        axes.add_patch(Rectangle((x, 18), 12, 7, facecolor="none", edgecolor=GREY, linestyle="--", linewidth=1.2))
        if number > 1:
            kind(axes, x, 18, 3, 7, "gradients")
            word(axes, x + 7.7, 21.5, "gone", size=9.5, color=GREY)
        elif number == 1:
            word(axes, x + 6, 21.4, "?", size=18, weight="bold", color=RED)
        else:
            word(axes, x + 6, 21.5, "not yet", size=9.5, color=GREY)
        arrow(axes, (x + 6, 11.6), (x + 6, 17.6), color=INK if number > 0 else GREY)
    arrow(axes, (73.5, 3.2), (34, 3.2), color=COLOURS[0], linewidth=2.4)
    word(axes, 26.4, 3.2, "backward", size=10)
    return figure
