"""Pictures of what a schedule decides: which action comes next, and what is kept until then."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.cut_model import GREEN, LEFT, LOOKS, PURPLE, RIGHT, WHITE, arrow, box
from course_lib.authoring.pictures.sketch import GREY, PALE, drawing, word


def table() -> Figure:
    """A schedule as a table: rows are stages, columns moments."""
    figure, axes = drawing(8, 2.1)
    cells = ("F0 F1 . . B0 B1", ". F0 F1 B0 B1 .")
    for row, line in enumerate(cells):
        word(axes, 15, 11.8 - 6 * row, f"stage {row}")
        for column, cell in enumerate(line.split()):
            colour = LOOKS[cell[0]][0] if cell != "." else "white"
            box(axes, 21 + 7 * column, 9 - 6 * row, 6.4, 5.4, cell, colour=colour)
    for column in range(6):
        word(axes, 24.2 + 7 * column, 16.4, str(column), size=9, color=GREY)
    word(axes, 69, 16.4, "moment", size=9, color=GREY)
    return figure


def pile() -> Figure:
    """What is kept grows with every forward, up to where?"""
    figure, axes = drawing(8, 2.4)
    for moment, high in enumerate((1, 2, 3, 4)):
        x = 12 + 13 * moment
        for number in range(high):
            box(axes, x, 4.4 + 3.4 * number, 9, 3, f"F{number}", colour=LEFT)
        word(axes, x + 4.5, 2.4, f"after F{moment}", size=9, color=GREY)
    word(axes, 68, 12, "?", size=24, weight="bold")
    word(axes, 68, 5.6, "how high?", size=10)
    return figure


def choice() -> Figure:
    """After F0 on the last stage: F1 or B0?"""
    figure, axes = drawing(8, 2.2)
    word(axes, 10, 11, "last stage")
    box(axes, 17, 8, 8, 6, "F0", colour=LEFT)
    box(axes, 41, 13, 8, 6, "F1", colour=LEFT)
    box(axes, 41, 3, 16, 6, colour=RIGHT, hatch="//")
    word(axes, 49, 6, "B0", size=9.5, color="black", bbox={**WHITE, "facecolor": RIGHT})
    arrow(axes, (25.5, 11.5), (40.4, 16))
    arrow(axes, (25.5, 10.5), (40.4, 6))
    word(axes, 32, 11, "?", size=18, weight="bold", bbox=WHITE)
    word(axes, 59, 16, "GPipe", ha="left")
    word(axes, 59, 6, "1F1B", ha="left")
    return figure


def halves() -> Figure:
    """The two products of a linear layer's backward pass, and who waits for them."""
    figure, axes = drawing(8, 2.6)
    box(axes, 58, 10, 16, 6, "gradient of\nthe outputs", colour=PALE)
    word(axes, 66, 18.6, "arrives from the stage behind", size=8.5, color=GREY)
    box(axes, 28, 16, 17, 6, "I: gradient of\nthe inputs", colour=PURPLE)
    box(axes, 28, 4, 17, 6, colour=GREEN)
    word(axes, 36.5, 7, "W: gradient of\nthe weights", size=9.5, color="black")
    arrow(axes, (57.4, 14), (45.6, 19))
    arrow(axes, (57.4, 12), (45.6, 7))
    arrow(axes, (27.4, 19), (19.6, 19))
    word(axes, 10.5, 19, "the stage before\nis waiting for it", size=9.5)
    word(axes, 10.5, 7, "nobody waits\nbefore the step", size=9.5)
    return figure


def production() -> Figure:
    """One table, two runtimes."""
    figure, axes = drawing(8, 2.0)
    box(axes, 5, 5.5, 24, 9, "0F0,0F1,0B0,...\n1F0,1B0,1F1,...", colour=PALE)
    word(axes, 17, 17, "a schedule, as CSV", size=10)
    box(axes, 46, 11.5, 30, 5.5, "this course's runtime", colour=LEFT)
    box(axes, 46, 2.8, 30, 5.5, "torch.distributed.pipelining", colour=PURPLE)
    arrow(axes, (29.6, 11), (45.4, 14))
    arrow(axes, (29.6, 9), (45.4, 5.8))
    return figure
