"""The pictures of lesson 02.

What ranks hold is recorded from runs on four ranks; the other pictures are drawings.
"""

from __future__ import annotations

import functools
import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from course_lib import Cluster
from course_lib.authoring.pictures import sketch
from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, Drawings, Point, drawing, rank, word
from course_lib.parallel.collectives import record
from course_lib.parallel.collectives.recording import Recording
from course_lib.plot import OKABE_ITO, tiles


def arrow(axes: Axes, start: Point, end: Point, *, gap: float = 3.8) -> None:
    """An arrow between two circles, or whatever else ends ``gap`` before the points."""
    length = math.dist(start, end)
    (x, y), (u, v) = start, end
    dx, dy = (u - x) / length * gap, (v - y) / length * gap
    sketch.arrow(axes, (x + dx, y + dy), (u - dx, v - dy), head=14)


def question() -> Figure:
    """Four ranks with a full row of numbers each; below, each wants one quarter of the sum."""
    figure, axes = drawing(8, 3.0)
    for number in range(4):
        left = 4 + 19 * number
        word(axes, left + 7.2, 27.6, f"rank {number}")
        for part in range(4):
            axes.add_patch(Rectangle((left + 3.6 * part, 20), 3.4, 4.6, facecolor=COLOURS[number], edgecolor=INK))
            word(axes, left + 3.6 * part + 1.7, 22.3, f"{'ABCD'[number]}{part}", size=9)
            mine = part == number
            axes.add_patch(
                Rectangle((left + 3.6 * part, 4.5), 3.4, 4.6, facecolor="white", edgecolor=INK if mine else "#CCCCCC",
                          linestyle="-" if mine else ":", linewidth=2 if mine else 1)
            )  # fmt: skip
            if mine:
                word(axes, left + 3.6 * part + 1.7, 6.8, "sum", size=8)
        arrow(axes, (left + 7.2, 19), (left + 7.2, 10), gap=0.5)
    word(
        axes,
        40,
        14.6,
        "?",
        size=22,
        weight="bold",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )
    word(axes, 40, 1.6, "each rank needs its own quarter of the sum, and no more", size=10)
    return figure


def naive() -> Figure:
    """Three ranks send to rank 0 and get the sum back: all lines meet at one rank."""
    figure, axes = drawing(8, 3.2)
    for step, title in enumerate(("everybody sends to rank 0", "rank 0 sends the sum to everybody")):
        middle = (18 + 40 * step, 21)
        word(axes, 18 + 40 * step, 29.5, title, weight="bold")
        rank(axes, *middle, 0)
        for number in (1, 2, 3):
            place = (2 + 40 * step + 8 * number + (0 if number == 2 else -4 if number == 1 else 4), 7)
            rank(axes, *place, number)
            arrow(axes, *((place, middle) if step == 0 else (middle, place)))
    return figure


def ring_places(x: float, y: float, radius: float) -> list[Point]:
    """Where four ranks stand in a ring, from the upper left on, clockwise."""
    angles = [math.radians(135 - 90 * number) for number in range(4)]
    return [(x + radius * math.cos(a) * 1.35, y + radius * math.sin(a)) for a in angles]


def ring() -> Figure:
    """Four ranks in a ring, each sends one of its four parts to the next."""
    figure, axes = drawing(8, 3.8)
    places = ring_places(40, 18.5, 13)
    for number, (x, y) in enumerate(places):
        following = places[(number + 1) % 4]
        arrow(axes, (x, y), following)
        side = -1 if x < 40 else 1
        rank(axes, x, y, number)
        for part in range(4):
            left = x + side * 13 - 7 + 3.5 * part
            going = part == (number - 1) % 4  # as the course's ring, whose part r ends on rank r
            axes.add_patch(
                Rectangle((left, y - 2.2), 3.2, 4.4, facecolor=COLOURS[number], edgecolor=INK,
                          linewidth=2.6 if going else 0.8)
            )  # fmt: skip
            word(axes, left + 1.6, y, f"{'ABCD'[number]}{part}", size=9)
    word(axes, 40, 35.8, "step 1: every rank sends one part (heavy border) to the next rank", weight="bold")
    return figure


def tree() -> Figure:
    """A broadcast to four ranks: round 1, rank 0 to 1; round 2, 0 to 2 and 1 to 3."""
    figure, axes = drawing(8, 2.9)
    for column, title in enumerate(("before", "round 1", "round 2")):
        left = 4 + 27 * column
        word(axes, left + 10.5, 27, title, weight="bold")
        have = {0: {0}, 1: {0, 1}, 2: {0, 1, 2, 3}}[column]
        places = [(left + 4 + 13 * (number % 2), 19 - 12 * (number // 2)) for number in range(4)]
        for number, (x, y) in enumerate(places):
            axes.add_patch(
                Circle((x, y), 3.4, facecolor=COLOURS[0] if number in have else "white", edgecolor=INK,
                       linestyle="-" if number in have else ":", zorder=3)
            )  # fmt: skip
            word(axes, x, y, f"rank {number}", size=9.5, zorder=4)
        for sender, receiver in {0: [], 1: [(0, 1)], 2: [(0, 2), (1, 3)]}[column]:
            arrow(axes, places[sender], places[receiver])
    return figure


def small() -> Figure:
    """Six short messages in a row around a ring, four in a row along a tree."""
    figure, axes = drawing(8, 2.0)
    for row, (name, count) in enumerate((("ring", 6), ("tree, up and down", 4))):
        y = 12.5 - 7 * row
        word(axes, 2, y + 2, name, ha="left")
        for number in range(count):
            axes.add_patch(Rectangle((22 + 8.5 * number, y), 7.6, 4, facecolor="#DDDDDD", edgecolor=INK, hatch="//"))
            axes.add_patch(
                Rectangle((22 + 8.5 * number + 7.2, y), 0.9, 4, facecolor=OKABE_ITO["vermillion"], edgecolor=INK)
            )
    word(axes, 22, 18.6, "hatched: latency of a message; solid: its bytes", ha="left", size=9, color=GREY)
    return figure


@functools.cache
def recorded() -> Recording:
    """A ring all-reduce, recorded on four ranks: two pictures show it."""
    with Cluster(4) as cluster:
        return record(cluster, "all_reduce, ring")


def halves() -> Figure:
    """A recorded ring all-reduce: at the start, half-way, and at the end."""
    frames = recorded().frames
    panels = {"at the start": frames[0], "half-way": frames[3], "at the end": frames[6]}
    return tiles(panels, columns=3, messages=False).figure


def explorer() -> Figure:
    """The explorer with its controls, at step 2 of the ring."""
    frames = recorded().frames
    picture = tiles({"all_reduce, ring: after step 2": frames[2]}, columns=1, before=frames[1])
    figure = picture.figure
    width, height = figure.get_size_inches()
    grown = height + 0.5
    for part in figure.axes:
        part.set_position((0, 0, width / max(width, 6), height / grown))
    figure.set_size_inches(max(width, 6), grown)
    controls = figure.add_axes((0, height / grown, 1, 0.5 / grown))
    controls.set(xlim=(0, 60), ylim=(0, 5))
    controls.axis("off")
    for x, wide, text in ((10, 14, "all_reduce, ring"), (30, 5, "2"), (37, 8, "back"), (46, 10, "forward")):
        controls.add_patch(Rectangle((x, 1), wide, 3, facecolor="#F4F4F4", edgecolor=INK))
        word(controls, x + wide / 2, 2.5, text, size=9)
    word(controls, 5, 2.5, "collective", size=9)
    word(controls, 27.5, 2.5, "step", size=9)
    return figure


def build() -> Figure:
    """Four ranks with a tensor each, one function with a question mark, and the sum on each; below, what is asked."""
    figure, axes = drawing(8, 3.7)
    for title, x in (("each rank's tensor", 13), ("your all_reduce", 42), ("the sum, in place", 69)):
        word(axes, x, 34.6, title, weight="bold")
    for number in range(4):
        y = 27.4 - 6.6 * number
        word(axes, 2, y + 2, f"rank {number}", ha="left", size=9.5)
        for part in range(4):
            sketch.box(axes, 9.4 + 3.6 * part, y, 3.4, 4, f"{'ABCD'[number]}{part}", colour=COLOURS[number])
            sketch.box(axes, 60.4 + 4.4 * part, y, 4.2, 4, f"sum {part}", size=8)
        sketch.arrow(axes, (24.6, y + 2), (29.4, y + 2))
        sketch.arrow(axes, (54.6, y + 2), (59.4, y + 2))
    sketch.box(axes, 30, 6.6, 24, 25.4, colour="white", dash="--")
    word(axes, 42, 21.4, "?", size=26, weight="bold", color=GREY)
    word(axes, 42, 12, "messages from\nrank to rank, alone", size=9)
    asked = ("which values?", "how many bytes?", "how much room?", "how many rounds?", "which ranks?")
    for step, question in enumerate(asked, start=1):
        word(axes, 16 * step - 8, 2.6, f"{step}  {question}", size=9)
    return figure


PICTURES: Drawings = {
    "build": build,
    "question": question,
    "naive": naive,
    "ring": ring,
    "tree": tree,
    "small": small,
    "halves": halves,
    "explorer": explorer,
}
