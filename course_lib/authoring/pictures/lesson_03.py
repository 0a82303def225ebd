"""The pictures of lesson 03. All are drawings; none shows a measurement."""

from __future__ import annotations

from functools import partial

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures import sketch
from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, Drawings, drawing, word
from course_lib.plot import OKABE_ITO

HATCHES = ["", "//", "..", "xx"]
STYLE = {"hatch.linewidth": 0.6}

box = partial(sketch.box, size=10, drop=0.0, pad=1.5)
arrow = partial(sketch.arrow, head=14, gap=2)


def question() -> Figure:
    """A batch of 32 rows, four devices: how many each?"""
    figure, axes = drawing(8, 2.8)
    for row in range(32):
        axes.add_patch(Rectangle((8 + 2 * row, 20.5), 1.7, 4, facecolor="#BBBBBB", edgecolor=INK, linewidth=0.6))
    word(axes, 40, 26, "one batch from the loader: batch_size=32")
    for device in range(4):
        middle = 12.5 + 18.3 * device
        arrow(axes, (40, 20), (middle, 11.5), color=GREY)
        box(axes, middle - 7, 3.5, 14, 7.5, "", colour="white")
        word(axes, middle, 7.2, "? rows", size=13, weight="bold")
        word(axes, middle, 1.6, f"device {device}")
    return figure


def four_steps() -> Figure:
    """Scatter, replicate, parallel apply, gather, from left to right."""
    figure, axes = drawing(8, 3.6)
    for column, (title, below) in enumerate(
        (
            ("1  scatter", "the batch is cut"),
            ("2  replicate", "the weights are copied"),
            ("3  parallel apply", "a thread for each"),
            ("4  gather", "outputs on device 0"),
        )
    ):
        word(axes, 10 + 20 * column, 33.6, title, weight="bold")
        word(axes, 10 + 20 * column, 1.6, below, size=9, color=GREY)
    box(axes, 1.5, 7, 4.5, 20, "x", colour="white", size=12)
    box(axes, 21.5, 13.5, 5, 7, "model", colour="white", size=9)
    for device in range(4):
        y, coloured = 24.5 - 6.6 * device, partial(box, colour=COLOURS[device], hatch=HATCHES[device])
        arrow(axes, (6.2, 17), (12, y + 2.2))
        coloured(axes, 12.2, y, 5, 4.5, f"x{device}")
        arrow(axes, (26.7, 17), (31.2, y + 2.2))
        coloured(axes, 31.4, y, 6.4, 4.5, f"copy {device}", size=8.5)
        arrow(axes, (38.2, y + 2.2), (42.2, y + 2.2))
        coloured(axes, 42.4, y, 15.2, 4.5, f"copy {device}(x{device})")
        arrow(axes, (57.8, y + 2.2), (70, 17))
        axes.add_patch(
            Rectangle((71, 22 - 5 * device), 5, 5, facecolor=COLOURS[device], edgecolor=INK, hatch=HATCHES[device])
        )
    word(axes, 73.5, 4.6, "y", size=12)
    return figure


def traffic() -> Figure:
    """What the devices hold when a step begins; what has to be sent is the question."""
    figure, axes = drawing(8, 2.3)
    for device in range(4):
        left, own = 2 + 19.5 * device, device == 0
        coloured = partial(box, colour=COLOURS[device], hatch=HATCHES[device])
        word(axes, left + 8.7, 20.4, f"device {device}", weight="bold")
        box(axes, left, 3, 17.4, 15.4, "", colour="white", dash="-" if own else "--")
        coloured(axes, left + 1.5, 4.4, 14.4, 3.6, "")
        word(
            axes,
            left + 8.7,
            6.2,
            "its rows",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            size=9,
        )
        if own:
            box(axes, left + 1.5, 13.4, 14.4, 3.6, "model", colour="white")
            box(axes, left + 1.5, 8.9, 14.4, 3.6, "optimizer", colour="white")
    return figure


def batch_norm() -> Figure:
    """Four parts with means 10 to 40, and one running mean."""
    figure, axes = drawing(8, 2.3)
    for device in range(4):
        left = 3 + 19.2 * device
        box(
            axes,
            left,
            14,
            16.5,
            6,
            f"mean {10 * (device + 1)}",
            colour=COLOURS[device],
            hatch=HATCHES[device],
        )
        word(axes, left + 8.2, 21.6, f"replica {device}", size=9)
        arrow(axes, (left + 8.2, 13.8), (32 + 5.3 * device, 8), color=GREY)
    box(axes, 27, 1.5, 26, 6, "running mean:  ?", colour="white", size=11)
    return figure


def memory_question() -> Figure:
    """Equal bars of parameters and activations; something lies on top of device 0's."""
    figure, axes = drawing(8, 2.9)
    for device in range(4):
        left = 8 + 18 * device
        box(axes, left, 3.5, 11, 4.5, "parameters", colour=OKABE_ITO["sky blue"], size=9)
        box(axes, left, 8, 11, 8, "activations\nof its part", colour=OKABE_ITO["orange"], hatch="//", size=9)
        word(axes, left + 5.5, 1.6, f"device {device}")
    box(axes, 8, 16, 11, 10.5, "?", colour="white", dash="--", size=18)
    return figure


def threads() -> Figure:
    """Two threads take turns at the lock; two processes do not wait for each other."""
    figure, axes = drawing(8, 3.3)
    look = {0: (COLOURS[0], ""), 1: (COLOURS[1], "//")}
    for group, title in enumerate(("one process, two threads: one lock", "two processes: a lock each")):
        top = 25 - 16 * group
        word(axes, 2, top + 5, title, ha="left", weight="bold")
        for worker in range(2):
            y = top - 5.2 * worker
            word(axes, 2, y + 1.7, f"{'process' if group else 'thread'} {worker}", ha="left", size=9.5)
            colour, hatch = look[worker]
            for turn in range(8):
                mine = group == 1 or turn % 2 == worker
                if group == 1 and turn > 3:
                    continue
                left = 14 + 7.9 * turn
                if mine:
                    box(axes, left, y, 7.6, 3.4, colour=colour, hatch=hatch)
                else:
                    box(axes, left, y, 7.6, 3.4, colour="white", dash=":", edge=GREY)
                    word(axes, left + 3.8, y + 1.7, "waits", size=8.5, color=GREY)
    arrow(axes, (14, 1.4), (77.5, 1.4), color=GREY)
    word(axes, 72, 3, "time", size=9, color=GREY)
    return figure


def warm_up() -> Figure:
    """What the share should do, and what it does."""
    figure, axes = drawing(8, 2.2)
    arrow(axes, (12, 3.5), (74, 3.5), color=INK)
    arrow(axes, (12, 3.5), (12, 20.5), color=INK)
    axes.plot([12, 45, 70], [4, 17, 17], "--", color=OKABE_ITO["blue"], linewidth=2)
    axes.plot([12, 70], [4.4, 4.4], "-", color=OKABE_ITO["vermillion"], linewidth=2.4)
    word(axes, 62, 19, "on one GPU", size=10)
    word(axes, 62, 6.6, "on four GPUs", size=10)
    word(axes, 6.2, 17, "share", size=9.5)
    word(axes, 45, 1.6, "step 100", size=9.5)
    return figure


PICTURES: Drawings = {
    "question": question,
    "four_steps": four_steps,
    "traffic": traffic,
    "batchnorm": batch_norm,
    "memory_question": memory_question,
    "threads": threads,
    "warm_up": warm_up,
}
