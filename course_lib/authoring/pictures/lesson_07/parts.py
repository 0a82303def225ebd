"""Pictures of what is cut: the batch, the model, and where their parts lie."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.cut_model import GREEN, LEFT, PURPLE, RIGHT, arrow, box
from course_lib.authoring.pictures.sketch import GREY, INK, PALE, drawing, word


def pieces() -> Figure:
    """A batch, cut in four, in front of four stages."""
    figure, axes = drawing(8, 2.2)
    box(axes, 3, 5, 7, 12, "batch\nof 16", colour=PURPLE)
    arrow(axes, (10.6, 11), (14.4, 11))
    for number in range(4):
        box(axes, 36 - 7 * number - 0.6, 8.2, 5.6, 5.6, str(number), colour=PURPLE)
    word(axes, 28, 16.4, "micro-batches of 4")
    arrow(axes, (41.6, 11), (45.4, 11))
    for stage in range(4):
        box(axes, 46 + 8.2 * stage, 7, 6.6, 8, f"stage\n{stage}", colour=LEFT)
    word(axes, 61.5, 4.4, "one on each device", size=9.5)
    return figure


def train() -> Figure:
    """The same row of pieces cut in one, two and four."""
    figure, axes = drawing(8, 2.8)
    colours = (LEFT, RIGHT, GREEN, PURPLE)
    for row, sizes in enumerate(((10,), (5, 5), (3, 2, 2, 3))):  # as the lesson's cut by parameters has them
        y, parts = 20 - 7 * row, len(sizes)
        for piece, part in enumerate(part for part, size in enumerate(sizes) for _ in range(size)):
            box(axes, 16 + 3.7 * piece + 1.4 * part, y, 3.4, 5, colour=colours[part])
        word(axes, 9, y + 2.5, f"{parts} stage{'s' * (parts > 1)}")
        arrow(axes, (59, y + 2.5), (63.4, 16))
    box(axes, 64, 12.5, 11, 7, "the same\nlosses", colour=PALE)
    word(axes, 36, 2.6, "from left to right: stem, eight blocks, head", size=9, color=GREY)
    return figure


def virtual_stages() -> Figure:
    """Eight stages on four ranks, twice round."""
    figure, axes = drawing(8, 3.0)
    for rank in range(4):
        x = 12 + 17 * rank
        axes.add_patch(Rectangle((x - 2, 5), 13, 19, facecolor=PALE, edgecolor=GREY))
        word(axes, x + 4.5, 26, f"rank {rank}")
    for rank in range(4):
        x = 12 + 17 * rank
        box(axes, x, 16.5, 9, 5, f"stage {rank}", colour=LEFT)
        box(axes, x, 7.5, 9, 5, f"stage {rank + 4}", colour=RIGHT)
        if rank < 3:
            arrow(axes, (x + 9.2, 19), (x + 16.8, 19))
            arrow(axes, (x + 9.2, 10), (x + 16.8, 10))
    axes.plot([72.2, 75.5, 75.5, 6.5, 6.5], [19, 19, 14.5, 14.5, 10], color=INK, linewidth=1)
    arrow(axes, (6.5, 10), (11.8, 10))
    word(axes, 40, 2.4, "from rank 3 back to rank 0, and round once more", size=9.5)
    return figure


def grid() -> Figure:
    """Two pipelines of two stages."""
    figure, axes = drawing(8, 2.9)
    for row in range(2):
        y = 17.5 - 12 * row
        word(axes, 11, y + 3, f"pipeline {row}:\nhalf of the batch", size=9.5)
        for stage, (left, colour) in enumerate(((23, LEFT), (53, RIGHT))):
            box(axes, left, y, 18, 6, f"rank {2 * row + stage}: stage {stage}", colour=colour)
        arrow(axes, (41.4, y + 3), (52.6, y + 3), style="<|-|>")
        word(axes, 47, y + 5, "activations", size=8.5)
    for left, stage in ((32, 0), (62, 1)):
        arrow(axes, (left, 17), (left, 12), style="<|-|>", linestyle=":", linewidth=1.6)
        word(axes, left + 1.2, 14.5, f"gradients of stage {stage}", size=8.5, ha="left")
    return figure
