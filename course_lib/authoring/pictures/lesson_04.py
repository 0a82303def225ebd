"""The pictures of lesson 04.

Curves and bars are computed by the cost model; the other pictures are drawings.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib import cost
from course_lib.authoring.pictures.sketch import (
    COLOURS,
    GREY,
    INK,
    PALE,
    Drawings,
    arrow,
    box,
    drawing,
    rank,
    word,
)
from course_lib.plot import OKABE_ITO, memory_bars
from course_lib.widgets import BucketExplorer

BLUE, ORANGE, GREEN, RED, LIGHT = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "vermillion", "yellow"))


def apart() -> Figure:
    """Four ranks with a model and a quarter of the images each, and a question mark between them."""
    figure, axes = drawing(8, 2.6)
    for number in range(4):
        left = 5 + 18.5 * number
        rank(axes, left + 7, 20.5, number)
        box(axes, left, 11, 14, 4.6, "model", colour=COLOURS[number])
        box(axes, left, 4.2, 14, 4, "a quarter of the images", size=7.5)
        arrow(axes, (left + 7, 8.4), (left + 7, 10.8))
        if number:
            word(axes, left - 2.2, 13.2, "?", size=18, weight="bold", color=GREY)
    word(axes, 40, 1.6, "one process group", size=10)
    return figure


def step() -> Figure:
    """Two ranks: forward and backward apart, the mean of gradients together, the step apart."""
    figure, axes = drawing(8, 2.9)
    for row in range(2):
        y = 17.5 - 12 * row
        rank(axes, 5, y + 2.4, row)
        box(axes, 11, y, 11, 4.8, "its half of\nthe batch", size=8.5)
        box(axes, 24, y, 9, 4.8, "forward", colour=BLUE)
        box(axes, 35, y, 10, 4.8, "backward", colour=ORANGE, hatch="//")
        box(axes, 61, y, 7, 4.8, "step", colour=GREEN, hatch="\\\\")
        word(axes, 74.2, y + 2.4, "same\nweights", size=9.5)
        for start, end in ((22.2, 23.8), (33.2, 34.8), (45.2, 48.6), (57.4, 60.8), (68.2, 70.6)):
            arrow(axes, (start, y + 2.4), (end, y + 2.4))
    box(axes, 49, 4, 8.2, 19.8, "mean\nof all\ngradients\n\n(all-\nreduce)", colour=RED, size=9)
    word(axes, 53, 26.4, "the only place where they meet", size=9.5)
    return figure


def buckets() -> Figure:
    """Sixteen messages with a latency each above one message with the same bytes."""
    figure, axes = drawing(8, 2.1)
    word(axes, 2, 16.6, "a call for each gradient", ha="left")
    for number in range(16):
        left = 2 + 4.7 * number
        box(axes, left, 11.4, 2.9, 3.6, colour="#DDDDDD", hatch="////")
        box(axes, left + 2.9, 11.4, 1.2 if number % 2 else 0.35, 3.6, colour=RED)
    word(axes, 2, 7.8, "one call for the bucket", ha="left")
    box(axes, 2, 2.6, 2.9, 3.6, colour="#DDDDDD", hatch="////")
    box(axes, 4.9, 2.6, 8 * 1.55, 3.6, "the same bytes", colour=RED, size=8.5)
    word(axes, 78, 4.4, "hatched: latency; solid: bytes", ha="right", size=9, color=GREY)
    return figure


def overlap() -> Figure:
    """Backward and then one all-reduce; backward with four all-reduces beside it."""
    figure, axes = drawing(8, 3.1)
    word(axes, 2, 28.6, "one bucket: nothing is hidden", ha="left", weight="bold")
    box(axes, 2, 22, 36, 4.2, "backward", colour=ORANGE, hatch="//")
    box(axes, 38, 17.4, 28, 4.2, "all-reduce", colour=RED)
    word(axes, 2, 13, "four buckets: all but the last is hidden", ha="left", weight="bold")
    for number in range(4):
        box(axes, 2 + 9 * number, 6.6, 9, 4.2, colour=ORANGE, hatch="//")
        box(axes, 11 + 9 * number, 2, 8.6, 4.2, f"bucket {number + 1}", colour=RED, size=8)
    word(
        axes,
        20,
        8.7,
        "backward",
        size=9,
        color="black",
        bbox={"facecolor": ORANGE, "edgecolor": "none", "pad": 1.2},
    )
    for x, y in ((66, 16.2), (47, 0.8)):
        arrow(axes, (x, y + 12), (x, y), style="-")
    word(axes, 66.8, 24.6, "ready", ha="left")
    word(axes, 47.8, 9.6, "ready", ha="left")
    return figure


def bucket_size() -> Figure:
    """What small buckets have against them, what large ones have; between them a question mark."""
    figure, axes = drawing(8, 2.1)
    for place, (size, sends) in enumerate((("small buckets", 8), ("large buckets", 1))):
        left, wide = 2 + 46 * place, 24 / sends
        word(axes, left, 17, size, ha="left", weight="bold")
        box(axes, left, 10.4, 20, 4, "backward", colour=ORANGE, hatch="//", size=8.5)
        start = left + 20 / sends
        for number in range(sends):
            x = start + (wide + 0.4 if sends == 1 else 3.6) * number
            box(axes, x, 5.6, 1.6, 4, colour="#DDDDDD", hatch="////")
            box(axes, x + 1.6, 5.6, 9.6 / sends, 4, colour=RED)
    word(axes, 41, 10, "?", size=20, weight="bold", color=GREY)
    word(axes, 2, 2.4, "early, and a latency each", ha="left", size=9)
    word(axes, 48, 2.4, "one latency, and late", ha="left", size=9)
    word(axes, 78, 17, "hatched grey: latency", ha="right", size=9, color=GREY)
    return figure


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


def drift() -> Figure:
    """Four replicas go along together until one leaves; a row of hashes under them shows when."""
    figure, axes = drawing(8, 3.0)
    steps = [14 + 12 * number for number in range(6)]
    for number in range(4):
        y = 26 - 4 * number
        word(axes, 5, y, f"rank {number}")
        axes.plot(steps, [y] * 6, color=INK, linewidth=1.4, zorder=1)
        for place, x in enumerate(steps):
            odd = number == 2 and place >= 4
            axes.plot([x], [y], marker="X" if odd else "o", markersize=11 if odd else 9,
                      color=RED if odd else COLOURS[number], markeredgecolor=INK, zorder=2)  # fmt: skip
    word(axes, 5, 7, "hashes")
    marks = ("a3", "7c", "d1", "f0", "9e", "52")
    for place, (x, mark) in enumerate(zip(steps, marks, strict=True)):
        apart = place >= 4
        text = f"{mark} {mark}\n{'b8' if apart else mark} {mark}"
        box(axes, x - 4.4, 4, 8.8, 6, text, colour=LIGHT if apart else PALE, size=9)
        word(axes, x, 1.6, "differ" if apart else "equal", size=8.5, weight="bold" if apart else "normal")
    return figure


def checkpoint() -> Figure:
    """The power goes while a file is written over, or while a draft is written beside it."""
    figure, axes = drawing(8, 2.9)
    for row, (title, name) in enumerate((("write over it", "last.pt"), ("write a draft, then rename it", "draft"))):
        y = 17.4 - 13.4 * row
        word(axes, 2, y + 9, title, ha="left", weight="bold")
        box(axes, 2, y, 15, 5.6, "last.pt\nstep 100", colour=BLUE, size=8.5)
        arrow(axes, (17.4, y + 2.8), (24, y + 2.8))
        box(axes, 24.4, y, 15, 5.6, f"{name}\nhalf of 200", colour=RED, hatch="//", size=8.5)
        word(axes, 43.1, y + 8, "the power goes", size=9, color=GREY)
        arrow(axes, (39.8, y + 2.8), (46.4, y + 2.8))
        box(axes, 47, y, 15, 5.6, "last.pt\n?", colour="white", size=9, dash=":")
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


def explorer() -> bytes:
    """The explorer's picture as it opens."""
    return bytes(BucketExplorer().image.value)


PICTURES: Drawings = {
    "apart": apart,
    "step": step,
    "buckets": buckets,
    "overlap": overlap,
    "bucket_size": bucket_size,
    "explorer": explorer,
    "accumulate": accumulate,
    "sampler": sampler,
    "batch": batch,
    "batch_norm": batch_norm,
    "scaling": scaling,
    "drift": drift,
    "checkpoint": checkpoint,
    "memory": memory,
}
