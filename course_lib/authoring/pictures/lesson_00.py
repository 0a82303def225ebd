"""The pictures of lesson 00.

They are drawings, not measurements. Colours are Okabe and Ito's, and every colour comes with a letter or a hatch.
"""

from __future__ import annotations

import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from course_lib.authoring.pictures import sketch
from course_lib.authoring.pictures.sketch import Drawings, Point, drawing

COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7")
INK, GREY, PALE = "#1a1a1a", "#6b6b6b", "#f1f1ee"


def finished(figure: Figure) -> bytes:
    """A PNG with 160 dots to an inch, rougher than those of the other lessons."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=160, metadata={"Software": None})
    return buffer.getvalue()


def box(axes: Axes, x: float, y: float, wide: float, high: float, text: str = "", **look: Any) -> None:
    """A box with round corners and a text in its middle."""
    size, weight = look.pop("size", 11), look.pop("weight", "normal")
    look = {"facecolor": "white", "edgecolor": INK, "linewidth": 1.2, **look}
    axes.add_patch(FancyBboxPatch((x, y), wide, high, boxstyle="round,pad=0,rounding_size=0.8", **look))
    word(axes, x + wide / 2, y + high / 2, text, size=size, weight=weight)


def arrow(axes: Axes, start: Point, end: Point, style: str = "-|>") -> None:
    """An arrow in this lesson's ink."""
    sketch.arrow(axes, start, end, style=style, head=11, gap=2, color=INK, linewidth=1.2)


def word(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """A text in this lesson's ink and size."""
    look = {"size": 10.5, "color": INK, **look}
    sketch.word(axes, x, y, text, **look)


def loop() -> bytes:
    """Predict, run, reveal, explain, build, break."""
    figure, axes = drawing(7.4, 1.3)
    steps = (
        ("1 predict", "you commit\nto an answer"),
        ("2 run", "real processes\ndo it"),
        ("3 reveal", "both answers,\nside by side"),
        ("4 explain", "why they\ndiffer"),
        ("5 build", "you write\nthe heart of it"),
        ("6 break", "you find\na real bug"),
    )
    for number, (name, text) in enumerate(steps):
        x = 1.5 + 12 * number
        box(axes, x, 7, 10.4, 4.4, name, facecolor=PALE, weight="bold", size=11)
        word(axes, x + 5.2, 3.8, text, size=9.5)
        if number < 5:
            arrow(axes, (x + 10.5, 9.2), (x + 11.9, 9.2))
    return finished(figure)


def four_ranks() -> bytes:
    """The notebook's kernel hands one function to four processes, and gets back what they return."""
    figure, axes = drawing(7.4, 3.1)
    box(axes, 25, 23.5, 24, 6, "your notebook\n(its kernel: one process)", facecolor=PALE)
    for rank in range(4):
        x = 2 + 18 * rank
        arrow(axes, (37, 23.4), (x + 8, 17.2), "<|-|>")
        box(axes, x, 2, 16, 15, facecolor=COLOURS[rank] + "38", edgecolor=INK)
        word(axes, x + 8, 14.8, f"rank {rank}", weight="bold", size=12)
        word(axes, x + 8, 12.2, "one process", size=9.5)
        box(axes, x + 1.5, 6.7, 13, 3.8, f"me.rank = {rank}", size=10)
        box(axes, x + 1.5, 2.6, 13, 3.3, "its device", size=10, hatch="///", edgecolor="#b5b5b5")
    word(axes, 12.5, 25.2, "the function travels\nto every rank", size=9.5, ha="center", color=GREY)
    word(axes, 61, 25.2, "what it returns\ntravels back", size=9.5, ha="center", color=GREY)
    return finished(figure)


def nodes() -> bytes:
    """Two nodes with two devices each: world size 4, ranks 0 to 3."""
    figure, axes = drawing(7.4, 2.2)
    for node in range(2):
        x = 2 + 36 * node
        box(axes, x, 2, 34, 16.5, facecolor=PALE)
        word(axes, x + 17, 16.4, f"node {node}: one machine", weight="bold", size=11)
        for local in range(2):
            rank = 2 * node + local
            left = x + 2 + 16 * local
            box(
                axes,
                left,
                8.6,
                14,
                5.4,
                f"rank {rank}\n(a process)",
                facecolor=COLOURS[rank] + "55",
                size=10.5,
            )
            box(axes, left, 3.2, 14, 4, f"device {local}", hatch="///", edgecolor="#b5b5b5", size=10.5)
            arrow(axes, (left + 7, 8.5), (left + 7, 7.3))
    word(axes, 37, 20.2, "world size 4: all ranks of one job, over all nodes", size=10.5, weight="bold")
    return finished(figure)


def replica_and_shard() -> bytes:
    """The same model held whole four times, and cut in four."""
    figure, axes = drawing(7.4, 2.3)
    titles = ("replica: every rank holds the whole model", "shard: every rank holds one piece of it")
    for side, title in enumerate(titles):
        left = 2 + 37 * side
        word(axes, left + 16.5, 21, title, weight="bold", size=10.5)
        for rank in range(4):
            x = left + 8.4 * rank
            box(axes, x, 4.6, 7.4, 13.4, facecolor="white")
            for piece, letter in enumerate("ABCD"):
                y = 14.6 - 3.2 * piece
                if side == 0 or piece == rank:
                    axes.add_patch(Rectangle((x + 0.8, y), 5.8, 2.6, facecolor=COLOURS[piece] + "99", edgecolor=INK))
                    word(axes, x + 3.7, y + 1.3, letter, weight="bold")
                else:
                    axes.add_patch(Rectangle((x + 0.8, y), 5.8, 2.6, fill=False, edgecolor="#c4c4c4", linestyle=":"))
            word(axes, x + 3.7, 2.6, f"rank {rank}", size=9.5)
    return finished(figure)


def all_reduce() -> bytes:
    """Four ranks hold 3, 1, 4, 1; after an all-reduce each holds 9."""
    figure, axes = drawing(7.4, 2.4)
    numbers = (3, 1, 4, 1)
    box(
        axes,
        4,
        9.8,
        66,
        4.4,
        "all_reduce: every rank gives its number, every rank gets the sum",
        facecolor=PALE,
    )
    for rank, number in enumerate(numbers):
        x = 7 + 17 * rank
        box(axes, x, 17, 9, 4.6, str(number), facecolor=COLOURS[rank] + "88", size=14, weight="bold")
        word(axes, x + 4.5, 22.7, f"rank {rank}", size=10)
        arrow(axes, (x + 4.5, 16.9), (x + 4.5, 14.4))
        arrow(axes, (x + 4.5, 9.7), (x + 4.5, 7.2))
        box(
            axes,
            x,
            2.4,
            9,
            4.6,
            str(sum(numbers)),
            facecolor="#F0E442",
            size=14,
            weight="bold",
        )
    word(axes, 2, 19.3, "before", rotation=90, size=10, color=GREY)
    word(axes, 2, 4.7, "after", rotation=90, size=10, color=GREY)
    return finished(figure)


def shares() -> bytes:
    """Ten items dealt to four ranks in blocks of 3, 3, 2 and 2."""
    figure, axes = drawing(7.4, 1.5)
    sizes, item = (3, 3, 2, 2), 0
    for rank, size in enumerate(sizes):
        left = 2 + 7 * item
        for _ in range(size):
            box(
                axes,
                2 + 7 * item,
                7,
                6.4,
                5.4,
                str(item),
                facecolor=COLOURS[rank] + "88",
                size=12,
                weight="bold",
            )
            item += 1
        right = 2 + 7 * item - 0.6
        axes.plot([left, left, right, right], [6, 5.2, 5.2, 6], color=INK, linewidth=1.2)
        word(axes, (left + right) / 2, 3.2, f"rank {rank}: {size} items")
    word(axes, 37, 13.6, "10 items, 4 ranks", size=10, color=GREY)
    return finished(figure)


def waiting() -> bytes:
    """Rank 0 waits in a collective that the others never call."""
    figure, axes = drawing(7.4, 2.1)
    for rank in range(4):
        y = 15.5 - 4.2 * rank
        word(axes, 5, y + 1.5, f"rank {rank}", size=10.5, weight="bold")
        axes.add_patch(Rectangle((10, y), 16, 3, facecolor=COLOURS[rank] + "99", edgecolor=INK))
        word(axes, 18, y + 1.5, "its own work", size=10)
        if rank == 0:
            axes.add_patch(Rectangle((26, y), 40, 3, facecolor="white", edgecolor="#D55E00", hatch="////"))
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 2.5}
            word(axes, 46, y + 1.5, "waits for the other three", size=10, color="black", bbox=ground)
            arrow(axes, (66, y + 1.5), (71.5, y + 1.5))
        else:
            word(axes, 36, y + 1.5, "returned, went on", size=10, color=GREY)
    axes.plot([26, 26], [1.5, 20], color=INK, linewidth=1, linestyle="--")
    word(axes, 26.6, 20, "the collective", size=9.5, ha="left")
    arrow(axes, (56, 1.2), (71.5, 1.2))
    word(axes, 52.5, 1.2, "time", size=9.5, color=GREY)
    return finished(figure)


def silent_job() -> bytes:
    """Four ranks have done their own work; then nothing more is heard of the job."""
    figure, axes = drawing(7.4, 2.1)
    for rank in range(4):
        y = 15.5 - 4.2 * rank
        word(axes, 5, y + 1.5, f"rank {rank}", size=10.5, weight="bold")
        axes.add_patch(Rectangle((10, y), 16, 3, facecolor=COLOURS[rank] + "99", edgecolor=INK))
        word(axes, 18, y + 1.5, "its own work", size=10)
        axes.add_patch(Rectangle((26, y), 40, 3, facecolor=PALE, edgecolor=GREY, linestyle=":"))
        word(axes, 46, y + 1.5, "?", size=12, weight="bold", color=GREY)
    arrow(axes, (56, 1.2), (71.5, 1.2))
    word(axes, 52.5, 1.2, "time", size=9.5, color=GREY)
    return finished(figure)


PICTURES: Drawings = {
    "loop": loop,
    "four_ranks": four_ranks,
    "nodes": nodes,
    "replica_and_shard": replica_and_shard,
    "shares": shares,
    "all_reduce": all_reduce,
    "silent_job": silent_job,
    "waiting": waiting,
}
