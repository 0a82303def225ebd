"""The pictures of lesson 06.

Parameters, memory and the bytes that cross are counted on the lesson's own VGG; the other pictures are drawings.
"""

from __future__ import annotations

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.cut_model import GREEN, LEFT, RIGHT, arrow, box
from course_lib.authoring.pictures.sketch import GREY, INK, PALE, Drawings, drawing, word
from course_lib.models import VGG
from course_lib.parallel.model import crossing_costs, memory_costs, parameter_costs
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


def where() -> Figure:
    """Parameters above the row of pieces, memory below, bytes over each gap: counted on the lesson's VGG and batch."""
    torch.manual_seed(0)
    model, images = (
        VGG((2, 2, 3, 3), width=8, hidden=512, num_classes=10, image_size=32),
        torch.randn(32, 3, 32, 32),
    )
    parameters, memory = parameter_costs(model), memory_costs(model, images)
    crossing = crossing_costs(model, images)
    names = [*(f"conv\n{i}" for i in range(1, 11)), *(f"linear\n{i}" for i in range(1, 4))]
    figure, axes = drawing(8, 4.2)
    for number, (name, its_parameters, its_memory) in enumerate(zip(names, parameters, memory, strict=True)):
        x = 12.5 + 5.1 * number
        box(axes, x, 23, 4.7, 4.5, name, colour=PALE)
        above, below = 12 * its_parameters / max(parameters), 11 * its_memory / max(memory)
        axes.add_patch(Rectangle((x, 27.7), 4.7, above, facecolor=OKABE_ITO["blue"], edgecolor=INK))
        axes.add_patch(Rectangle((x, 22.8 - below), 4.7, below, facecolor=RIGHT, edgecolor=INK, hatch="//"))
    for number, size_bytes in enumerate(crossing):
        x, high = 17.4 + 5.1 * number, 8 * size_bytes / max(crossing)
        axes.add_patch(Rectangle((x - 0.8, 1.5), 1.6, high, facecolor=GREEN, edgecolor=INK, hatch="xx"))
    word(axes, 6, 32, "share of\nparameters")
    word(axes, 6, 17.5, "share of\nmemory")
    word(axes, 6, 5, "bytes over\neach gap")
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
            box(axes, x + 1.5, 13, 6, 5, "matrix", colour=OKABE_ITO["purple"], hatch="")
            axes.plot([x + 4.5, x + 4.5], [11, 13], color=INK)
    axes.plot([40, 40], [2, 15], color=OKABE_ITO["vermillion"], linestyle="--", linewidth=2)
    arrow(axes, (13, 15.5), (66, 15.5), style="<|-|>", linestyle=":")
    word(axes, 40, 17.8, "the same?")
    word(axes, 20.5, 2.4, "rank 0")
    word(axes, 59.5, 2.4, "rank 1")
    return figure


PICTURES: Drawings = {
    "cut": cut,
    "messages": messages,
    "there_and_back": there_and_back,
    "where": where,
    "tied": tied,
}
