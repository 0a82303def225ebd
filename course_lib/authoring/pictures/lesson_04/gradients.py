"""The pictures of part a: four models, one mean, buckets that leave early."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO
from course_lib.widgets import BucketExplorer

__all__ = ["apart", "bucket_size", "buckets", "explorer", "overlap", "step"]

BLUE, ORANGE, GREEN, RED = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "vermillion"))


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


def explorer() -> bytes:
    """The explorer's picture as it opens."""
    return bytes(BucketExplorer().image.value)
