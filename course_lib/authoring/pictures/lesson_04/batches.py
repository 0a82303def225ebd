"""The pictures of part b: pieces of a batch, who reads what, and how steps shrink."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib import cost
from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, box, drawing, rank, word
from course_lib.plot import OKABE_ITO, memory_bars

__all__ = ["accumulate", "batch", "batch_norm", "memory", "sampler", "scaling"]

BLUE, ORANGE, GREEN, RED = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "vermillion"))


def accumulate() -> Figure:
    """Four pieces, forward and backward, and one step; a question mark after each piece."""
    figure, axes = drawing(8, 1.5)
    for piece in range(4):
        left = 2 + 17 * piece
        box(axes, left, 4.6, 4.6, 4.2, f"F{piece + 1}", colour=BLUE)
        box(axes, left + 4.6, 4.6, 6, 4.2, f"B{piece + 1}", colour=ORANGE, hatch="//")
        box(axes, left + 11.2, 4.6, 5.2, 4.2, "?", colour="white", dash=":")
    box(axes, 70.2, 4.6, 6, 4.2, "step", colour=GREEN, hatch="\\\\", size=8.5)
    word(axes, 2, 11.6, "four pieces of a batch, one step", ha="left", weight="bold")
    word(axes, 2, 2, "?: does an all-reduce run here?", ha="left", size=9)
    return figure


def sampler() -> Figure:
    """Ten cards in a shuffled order, dealt to four ranks in turn; two hands have an empty place."""
    figure, axes = drawing(8, 2.8)
    order = [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]
    for place, item in enumerate(order):
        x = 5 + 6 * place
        box(axes, x, 19, 4.6, 5, str(item), colour=COLOURS[place % 4], size=11)
        word(axes, x + 2.3, 17.2, f"rank {place % 4}", size=7.5)
    word(axes, 5, 26, "the same shuffled order on every rank", ha="left")
    for number in range(4):
        left = 5 + 19 * number
        rank(axes, left + 3.4, 6.5, number)
        for turn, place in enumerate(range(number, 12, 4)):
            card, there = left + 7.6 + 3.2 * turn, place < len(order)
            text, colour = (str(order[place]), COLOURS[number]) if there else ("?", "white")
            box(axes, card, 4.4, 2.9, 4.2, text, colour=colour, dash="-" if there else ":")
    return figure


def batch() -> Figure:
    """The same images in 45 short steps, and in 12 steps that are four times as wide."""
    figure, axes = drawing(8, 2.4)
    word(axes, 2, 21.6, "one rank: 45 steps of 32", ha="left", weight="bold")
    for number in range(45):
        box(axes, 2 + 1.7 * number, 16.6, 1.4, 2.6, colour=COLOURS[0])
    word(axes, 2, 13, "four ranks: 12 steps of 4 x 32", ha="left", weight="bold")
    for number in range(12):
        for row in range(4):
            box(axes, 2 + 1.7 * number, 8.6 - 2.6 * row, 1.4, 2.3, colour=COLOURS[row])
    for row in range(4):
        word(axes, 23, 9.7 - 2.6 * row, f"rank {row}", ha="left", size=8)
    word(axes, 32, 5, "as many images, a quarter of the updates:\nhow long should each of them be?", ha="left")
    return figure


def batch_norm() -> Figure:
    """Eight images on four ranks: a mean for each two of them, or one mean for all."""
    figure, axes = drawing(8, 2.8)
    for row, title in enumerate(("a mean on each rank?", "or one mean for all?")):
        y = 15.6 - 13 * row
        word(axes, 2, y + 8.4, title, ha="left", weight="bold")
        for number in range(8):
            box(axes, 4 + 9 * number, y + 2.6, 5, 4, f"image {number}", colour=COLOURS[number // 2], size=7.5)
        spans = [(4 + 18 * number, 14) for number in range(4)] if row == 0 else [(4.0, 68.0)]
        for left, wide in spans:
            axes.plot([left, left, left + wide, left + wide], [y + 1.8, y + 0.8, y + 0.8, y + 1.8], color=INK)
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            word(axes, left + wide / 2, y + 0.8, "mean", size=9, bbox=ground)
    return figure


def scaling() -> Figure:
    """Bars of a step on 1, 2 and 4 ranks: computing shrinks in strong scaling; communication stays."""
    figure, axes = drawing(8, 3.2)
    for column, title in enumerate(("strong: one batch, shared", "weak: a batch for each rank")):
        x0 = 3 + 39 * column
        word(axes, x0, 29.6, title, ha="left", weight="bold")
        for row, ranks in enumerate((1, 2, 4)):
            y = 22 - 7.6 * row
            computing = 22 / (ranks if column == 0 else 1)
            word(axes, x0, y + 2, f"{ranks} rank{'s' * (ranks > 1)}", ha="left", size=9)
            box(axes, x0 + 8, y, computing, 4, "computing" if computing > 10 else "", colour=BLUE, size=8.5)
            if ranks > 1:
                box(axes, x0 + 8 + computing, y, 6, 4, "waits", colour=RED, hatch="xx", size=8.5)
    word(axes, 40, 2, "time of a step; the gradients are as large in all of them", size=9, color=GREY)
    return figure


def memory() -> Figure:
    """What each rank holds for the CNN and a batch of 256, from formulas."""
    parameters = 288 + 32 + 18432 + 64 + 73728 + 128 + 1280 + 10
    state = cost.model_state(parameters, optimizer="adamw", num_tensors=8).as_dict()
    bars = {}
    for ranks in (1, 2, 4):
        layers = cost.cnn_layers(batch_size=256 // ranks)
        kept = cost.activation_bytes(cost.conv_activations(layers, batch_norm=False))
        bars[f"{ranks} rank{'s, each' * (ranks > 1)}"] = {**state, "activation": kept}
    return memory_bars(bars, title="A batch of 256, shared: only the activations are").figure
