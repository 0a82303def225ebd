"""The pictures of part c: a replica that leaves the others, and a file that is cut short."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

__all__ = ["checkpoint", "drift"]

BLUE, RED, LIGHT = (OKABE_ITO[name] for name in ("sky blue", "vermillion", "yellow"))


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
