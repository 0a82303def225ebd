"""Pictures of part d: who starts whom under Slurm, what is looked at before a job, and four ways to tell ranks what
to do."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

BLUE, RED, GREEN = OKABE_ITO["blue"], OKABE_ITO["vermillion"], OKABE_ITO["green"]


def slurm() -> Figure:
    """sbatch on a login node, the script on the first node, srun's tasks, torchrun, ranks: how many is asked."""
    figure, axes = drawing(8, 3.5)
    box(axes, 1.5, 19.6, 12, 5.6, "sbatch", colour=COLOURS[1], size=11)
    word(axes, 7.5, 17.4, "where you log in", size=9.5, color=GREY)
    box(axes, 1.5, 6.6, 12, 5.6, "the queue", colour="white", size=10.5, dash="--")
    arrow(axes, (7.5, 15.9), (7.5, 12.6))
    for number, y in enumerate((18.6, 2.2)):
        axes.add_patch(Rectangle((19.5, y), 59, 14.4, facecolor=PALE, edgecolor=INK, linewidth=1.2))
        word(axes, 23.4, y + 12.4, f"node {number + 1}", size=10.5, weight="bold")
        for task in range(3):
            look = {"dash": "-" if task == 0 else "--", "edge": INK if task == 0 else GREY}
            box(axes, 48 + 1.1 * task, y + 4.6 - 1.1 * task, 11.5, 5.8, "", colour="white", **look)
        box(axes, 48, y + 4.6, 11.5, 5.8, "torchrun", colour=COLOURS[0], size=10.5)
        for seat in range(3):
            axes.add_patch(Circle((68.4 + 3.4 * seat, y + 7.5), 1.45, facecolor=COLOURS[2], edgecolor=INK))
        word(axes, 71.8, y + 3.2, "ranks: how many?", size=9.5, color=RED)
        word(axes, 54.6, y + 12.4, "tasks: how many?", size=9.5, color=RED)
        arrow(axes, (62.2, y + 7.5), (66.4, y + 7.5))
    box(axes, 22, 20.8, 11, 8, "the script,\nonce", colour=COLOURS[1], size=10)
    arrow(axes, (13.8, 9.4), (21.6, 22.6), connectionstyle="arc3,rad=0.15")
    arrow(axes, (33.3, 25.6), (47.6, 26.2))
    word(axes, 40.2, 27.5, "srun", size=10, weight="bold")
    arrow(axes, (33.3, 23.4), (47.6, 10.6), connectionstyle="arc3,rad=-0.12")
    return figure


def looked_at() -> Figure:
    """Two nodes with GPUs, a network between, and what is asked of each part."""
    figure, axes = drawing(8, 3.8)
    for side, x in enumerate((3, 51)):
        axes.add_patch(Rectangle((x, 12.5), 26, 19, facecolor=PALE, edgecolor=INK, linewidth=1.2))
        word(axes, x + 4.6, 29.3, f"node {side + 1}", size=10.5, weight="bold")
        axes.add_patch(Circle((x + 22.4, 28.6), 1.8, facecolor="white", edgecolor=INK))
        axes.plot((x + 22.4, x + 22.4, x + 23.5), (29.8, 28.6, 28.2), color=INK, linewidth=1.2)
        word(axes, x + 13, 24.2, "memory · /dev/shm · limits · versions", size=9)
        for seat in range(4):
            box(axes, x + 2 + 5.8 * seat, 15, 4.6, 5.2, "GPU", colour=COLOURS[2], size=8.5)
            if seat:
                axes.plot((x + 0.8 + 5.8 * seat, x + 2 + 5.8 * seat), (17.6, 17.6), color=BLUE, linewidth=3)
    axes.plot((29, 35), (17.6, 17.6), color=RED, linewidth=3)
    axes.plot((45, 51), (17.6, 17.6), color=RED, linewidth=3)
    box(axes, 35, 14.8, 10, 5.6, "network", colour="white", size=10)
    for x, y, text, target in (
        (32, 35.8, "the same time?", (27.2, 30.2)),
        (60, 35.8, "the same everywhere?", (60, 25.6)),
        (9.4, 7.4, "as fast as\nNVLink is sold?", (10.2, 16.6)),
        (33, 7.4, "as fast as the\ncard is sold?", (32, 16.6)),
        (55.3, 7.4, "errors,\nheat?", (55.3, 14.6)),
        (70, 7.4, "as fast as\nthe others?", (66.8, 14.6)),
    ):
        word(axes, x, y, text, size=10, weight="bold")
        arrow(axes, (x, y - 1.4 if y > 20 else y + 2.6), target, color=GREY)
    for x, text, colour in ((16, "ok", GREEN), (31, "look", RED), (54, "could not check: why", GREY)):
        word(axes, x, 1.8, text, size=10.5, color=colour, weight="bold")
    return figure


def family() -> Figure:
    """Four ways in which ranks have been told what to do, beside each other."""
    figure, axes = drawing(8, 2.7)
    titles = ("parameter server", "ring (Horovod, DDP)", "replicas that may leave", "one controller")
    for number, title in enumerate(titles):
        x = 10.4 + 19.7 * number
        word(axes, x, 25, title, size=10, weight="bold")
        (_server, _ring, _replicas, _controller)[number](axes, x, 12.6)
    for number, text in enumerate(("torch: rpc", "all-reduce", "torchft", "Monarch, Ray")):
        word(axes, 10.4 + 19.7 * number, 2, text, size=9.5, color=GREY)
    return figure


def _dot(axes: Axes, x: float, y: float, colour: str = COLOURS[0], radius: float = 1.7, **look: str) -> None:
    axes.add_patch(Circle((x, y), radius, facecolor=colour, edgecolor=INK, zorder=3, **look))


def _around(x: float, y: float, count: int, far: float) -> list[tuple[float, float]]:
    turns = [math.pi / 2 + 2 * math.pi * number / count for number in range(count)]
    return [(x + far * math.cos(turn), y + far * math.sin(turn)) for turn in turns]


def _server(axes: Axes, x: float, y: float) -> None:
    for place in _around(x, y, 5, 7.2):
        arrow(axes, place, (x, y), style="<|-|>", gap=14, shrinkB=23, head=8)
        _dot(axes, *place)
    box(axes, x - 2.9, y - 1.4, 5.8, 2.8, "weights", colour=COLOURS[1], size=8)


def _ring(axes: Axes, x: float, y: float) -> None:
    places = _around(x, y, 6, 7)
    for place, after in zip(places, places[1:] + places[:1], strict=True):
        arrow(axes, place, after, gap=13, head=8)
        _dot(axes, *place)


def _replicas(axes: Axes, x: float, y: float) -> None:
    box(axes, x - 4.6, y + 4.4, 9.2, 3.6, "quorum", colour=COLOURS[1], size=8.5)
    for number, place in enumerate((-6, 0, 6)):
        is_gone = number == 2
        look = {"dash": "--" if is_gone else "-", "edge": GREY if is_gone else INK}
        box(axes, x + place - 2.4, y - 7.4, 4.8, 7.6, "", colour="white" if is_gone else PALE, **look)
        for seat in range(2):
            _dot(axes, x + place, y - 5.4 + 3.6 * seat, "white" if is_gone else COLOURS[0], 1.3)
        arrow(axes, (x + place * 0.6, y + 4.2), (x + place, y + 0.5), style="<|-|>", head=7,
              color=GREY if is_gone else INK)  # fmt: skip


def _controller(axes: Axes, x: float, y: float) -> None:
    box(axes, x - 5, y + 4.4, 10, 3.6, "your program", colour=COLOURS[1], size=8.5)
    for row in range(2):
        for column in range(3):
            place = (x + 5.4 * (column - 1), y - 1.4 - 4.8 * row)
            _dot(axes, *place)
            if row == 0:
                arrow(axes, (x + 2.4 * (column - 1), y + 4.2), (place[0], place[1] + 1.9), head=8)
