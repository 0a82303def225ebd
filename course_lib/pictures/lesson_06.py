"""The pictures of lesson 06.

The shares of memory and parameters are counted on the lesson's own ResNet; the other pictures are drawings.
"""

from __future__ import annotations

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.models import ResNet
from course_lib.parallel.model import memory_costs, parameter_costs, pieces_of
from course_lib.pictures.cut_model import LEFT, RIGHT, arrow, box
from course_lib.pictures.sketch import GREY, INK, PALE, Drawings, drawing, word
from course_lib.plot import OKABE_ITO

PIECES = ("stem", "block 0", "block 1", "block 2", "block 3", "head")


def cut() -> Figure:
    """Six pieces in a row, cut in the middle."""
    figure, axes = drawing(8, 2.2)
    for number, name in enumerate(PIECES):
        x = 4 + 12 * number + (3 if number > 2 else 0)
        box(axes, x, 8, 9, 6, name, colour=LEFT if number < 3 else RIGHT, hatch="" if number < 3 else "//")
        word(axes, x + 4.5, 11, name, size=9.5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})
        if number < 5:
            arrow(axes, (x + 9.1, 11), (x + 11.9 + (3 if number == 2 else 0), 11))
    axes.plot([40, 40], [3, 18], color=OKABE_ITO["vermillion"], linestyle="--", linewidth=2)
    word(axes, 40, 20, "cut", weight="bold")
    word(axes, 20.5, 4.5, "device 0")
    word(axes, 59.5, 4.5, "device 1")
    return figure


def two_ranks(axes: Axes, y: float = 6) -> None:
    """Two ranks with half of the pieces each."""
    box(axes, 6, y, 20, 8, colour=LEFT)
    box(axes, 54, y, 20, 8, colour=RIGHT)
    for x, rank, names in ((16, 0, "stem, blocks 0 and 1"), (64, 1, "blocks 2 and 3, head")):
        word(axes, x, y + 5.4, f"rank {rank}", weight="bold", color="black")
        word(axes, x, y + 2.5, names, size=9.5, color="black")


def messages() -> Figure:
    """An activation goes; what comes back is a question."""
    figure, axes = drawing(8, 2.0)
    two_ranks(axes)
    arrow(axes, (27, 12), (53, 12), linewidth=1.8)
    word(axes, 40, 14.4, "activation")
    arrow(axes, (53, 8), (27, 8), linestyle="--")
    word(axes, 40, 5.4, "?", size=16, weight="bold")
    return figure


def there_and_back() -> Figure:
    """Two rows on a time axis, with the two messages between them."""
    figure, axes = drawing(8, 2.4)
    for row, y in enumerate((14, 4)):
        word(axes, 4.5, y + 3, f"rank {row}")
    box(axes, 10, 14, 13, 6, "forward", colour=LEFT)
    box(axes, 61, 14, 15, 6, "backward", colour=LEFT)
    box(axes, 27, 4, 13, 6, "forward, loss", colour=RIGHT)
    box(axes, 41, 4, 15, 6, "backward", colour=RIGHT)
    arrow(axes, (23, 14), (27, 10))
    arrow(axes, (56, 10), (61, 14))
    word(axes, 31.5, 12.6, "activation", size=9)
    word(axes, 53, 12.6, "gradient", size=9)
    word(axes, 73, 1.4, "time →", size=9, color=GREY)
    return figure


def rows_with_question(axes: Axes) -> None:
    """Two rows on a time axis; only the first forward is known."""
    for row, y in enumerate((13, 5)):
        word(axes, 5, y + 2.5, f"rank {row}")
        axes.plot([10, 76], [y - 0.8, y - 0.8], color="#CCCCCC", linewidth=1)
    box(axes, 11, 13, 14, 5, "forward", colour=LEFT)
    word(axes, 73, 1.6, "time →", size=9, color=GREY)


def staircase_question() -> Figure:
    """Two rows: what comes after the first forward?"""
    figure, axes = drawing(8, 2.2)
    rows_with_question(axes)
    for x, y in ((48, 15.5), (44, 7.5)):
        word(axes, x, y, "?", size=20, weight="bold")
    return figure


def moving() -> Figure:
    """What costs more: the arrow, or the empty half of each row?"""
    figure, axes = drawing(8, 2.2)
    rows_with_question(axes)
    box(axes, 29, 5, 14, 5, "forward", colour=RIGHT)
    box(axes, 43, 5, 18, 5, "backward", colour=RIGHT)
    box(axes, 26, 13, 35, 5, "", colour="white", dash="--")
    word(axes, 43.5, 15.5, "waiting ?", weight="bold")
    arrow(axes, (25, 13), (29, 10))
    word(axes, 20, 11.4, "moving ?", weight="bold", size=10)
    return figure


def memory_question() -> Figure:
    """The whole model's memory, and two ranks whose share is the question."""
    figure, axes = drawing(8, 2.2)
    box(axes, 12, 3, 12, 16, "the whole\nmodel", colour=OKABE_ITO["yellow"])
    for x, rank in ((38, 0), (56, 1)):
        box(axes, x, 3, 12, 9, "?", colour="white", dash="--")
        word(axes, x + 6, 14, f"rank {rank}")
    return figure


def where() -> Figure:
    """Parameters above the row of pieces, memory below: counted on the lesson's ResNet and batch."""
    torch.manual_seed(0)
    model = ResNet((2, 2, 2, 2), width=8, bottleneck=False, num_classes=10, small_images=True)
    parameters, memory = parameter_costs(model), memory_costs(model, torch.randn(32, 3, 32, 32))
    figure, axes = drawing(8, 3.2)
    for number, name in enumerate(pieces_of(model)):
        x = 13 + 6.5 * number
        box(axes, x, 14.5, 6, 3, name.replace("blocks.", "block "), colour=PALE)
        above, below = 14 * parameters[number] / max(parameters), 14 * memory[number] / max(memory)
        axes.add_patch(Rectangle((x, 17.7), 6, above * 0.8, facecolor=OKABE_ITO["blue"], edgecolor="white"))
        axes.add_patch(
            Rectangle((x, 14.3 - below * 0.8), 6, below * 0.8, facecolor=RIGHT, edgecolor="white", hatch="//")
        )
    word(axes, 6, 23, "share of\nparameters")
    word(axes, 6, 8, "share of\nmemory")
    return figure


def fits() -> Figure:
    """One step on one device needs more than the limit."""
    figure, axes = drawing(8, 1.8)
    box(axes, 16, 6, 52, 6, colour=OKABE_ITO["yellow"])
    word(axes, 28.5, 9, "one step on one device", size=9.5)
    axes.plot([42, 42], [3, 15.5], color=INK, linestyle="--", linewidth=1.6)
    word(axes, 42, 16.6, "limit", size=9.5)
    word(axes, 8, 9, "memory")
    return figure


def tied() -> Figure:
    """The same matrix at both ends of the row, on two ranks."""
    figure, axes = drawing(8, 2.4)
    for number, name in enumerate(PIECES):
        x = 4 + 12 * number + (3 if number > 2 else 0)
        box(axes, x, 5, 9, 6, name, colour=LEFT if number < 3 else RIGHT)
        if number < 5:
            arrow(axes, (x + 9.1, 8), (x + 11.9 + (3 if number == 2 else 0), 8))
        if number in (0, 5):
            box(axes, x + 1.5, 13, 6, 5, "matrix", colour=OKABE_ITO["yellow"], hatch="")
            axes.plot([x + 4.5, x + 4.5], [11, 13], color=INK)
    axes.plot([40, 40], [2, 15], color=OKABE_ITO["vermillion"], linestyle="--", linewidth=2)
    arrow(axes, (13, 15.5), (66, 15.5), style="<|-|>", linestyle=":")
    word(axes, 40, 17.8, "the same?")
    word(axes, 20.5, 2.4, "rank 0")
    word(axes, 59.5, 2.4, "rank 1")
    return figure


def quiz() -> Figure:
    """Three boxes in time; what lies before and after one batch?"""
    figure, axes = drawing(8, 1.8)
    for number, (text, colour) in enumerate((("?", LEFT), ("one batch", RIGHT), ("?", OKABE_ITO["yellow"]))):
        box(axes, 10 + 21 * number, 6, 18, 6, colour=colour)
        word(axes, 19 + 21 * number, 9, text, size=14 if text == "?" else 10, weight="bold", color="black")
    word(axes, 73, 3, "time →", size=9, color=GREY)
    return figure


PICTURES: Drawings = {
    "cut": cut,
    "messages": messages,
    "there_and_back": there_and_back,
    "staircase_question": staircase_question,
    "moving": moving,
    "memory_question": memory_question,
    "where": where,
    "fits": fits,
    "tied": tied,
    "quiz": quiz,
}
