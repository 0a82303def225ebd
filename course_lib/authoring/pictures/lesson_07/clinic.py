"""Pictures of the bugs that lesson 07 lets its reader find."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.cut_model import LEFT, PURPLE, RIGHT, WHITE, arrow, box
from course_lib.authoring.pictures.sketch import INK, drawing, word


def clinic_bytes() -> Figure:
    """Two pipelines, and a link between them that has no rest."""
    figure, axes = drawing(8, 2.2)
    for row, y in enumerate((14.5, 2.5)):
        box(axes, 12, y, 52, 4.6, "", colour=LEFT if row == 0 else RIGHT)
        word(axes, 38, y + 2.3, f"pipeline {row}", color="black")
    box(axes, 12, 8.6, 52, 4.4, "", colour=INK)
    word(axes, 38, 10.8, "the link between them: always full", color="white")
    word(axes, 70, 10.8, "?", size=22, weight="bold")
    return figure


def clinic_loss() -> Figure:
    """The more micro-batches, the shorter the step."""
    figure, axes = drawing(8, 2.3)
    for row, m in enumerate((1, 2, 4, 8)):
        y = 17.5 - 5 * row
        for number in range(m):
            box(axes, 18 + 24 / m * number, y, 24 / m - 0.3, 3.4, colour=PURPLE)
        word(axes, 9, y + 1.7, f"{m} micro-batch{'es' * (m > 1)}", size=9.5)
        arrow(axes, (48, y + 1.7), (48 + 24 / m, y + 1.7), linewidth=2)
    word(axes, 53, 21.9, "the step that is taken", size=9.5)
    return figure


def clinic_send() -> Figure:
    """Two ranks, and nothing moves."""
    figure, axes = drawing(8, 2.0)
    for left, rank, colour in ((8, 0, LEFT), (56, 1, RIGHT)):
        box(axes, left, 5, 16, 9, "", colour=colour)
        word(axes, left + 8, 9.5, f"rank {rank}\nhangs", color="black")
    arrow(axes, (25, 9.5), (55, 9.5), style="<|-|>", linestyle="--")
    word(axes, 40, 9.5, "?", size=22, weight="bold", bbox=WHITE)
    word(axes, 40, 16.6, "GPipe: it ends.  1F1B: it does not.", size=10)
    return figure
