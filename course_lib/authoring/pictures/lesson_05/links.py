"""Pictures of part d: what is sent in a step, how many units may be whole, and two links."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

BLUE, ORANGE, GREEN, RED = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "vermillion"))
_UNITS, _WIDE = 4, 7.0  # a unit's backward is twice as wide as its forward


def sent() -> Figure:
    """A step of DDP and one of ZeRO-3: which messages there are; how large they are is asked."""
    figure, axes = drawing(8.4, 3.3)
    for top, name in ((24.5, "DDP"), (9, "ZeRO-3")):
        word(axes, 2, top + 6.4, name, ha="left", weight="bold")
        for unit in range(_UNITS):
            box(axes, 2 + _WIDE / 2 * unit, top, _WIDE / 2, 4, str(unit), colour=BLUE)
            left = 2 + _WIDE / 2 * _UNITS + _WIDE * (_UNITS - 1 - unit)
            box(axes, left, top, _WIDE, 4, str(unit), colour=ORANGE, hatch="//")
            if name == "DDP":
                box(axes, left + _WIDE + 0.1, top - 4.4, 3.2, 3.6, "?", colour=RED)
            else:
                box(axes, 2 + _WIDE / 2 * unit, top - 4.4, 3.2, 3.6, "?", colour=GREEN, hatch="..")
                box(axes, left, top - 4.4, 3.2, 3.6, "?", colour=GREEN, hatch="..")
                box(axes, left + _WIDE + 0.1, top - 8.4, 3.2, 3.6, "?", colour=RED)
    for y, colour, hatch, text in (
        (25.6, BLUE, "", "forward"),
        (20.8, ORANGE, "//", "backward"),
        (16, GREEN, "..", "weights travel"),
        (11.2, RED, "", "gradients travel"),
    ):
        box(axes, 60, y, 4, 3.2, colour=colour, hatch=hatch)
        word(axes, 65.2, y + 1.6, text, ha="left")
    word(axes, 60, 6.4, "?: how many bytes", ha="left", color=GREY)
    return figure


def room() -> Figure:
    """Four units, of which two may be whole: what is in the two places at each use, and the first words."""
    figure, axes = drawing(8, 2.7)
    uses = [f"F{unit}" for unit in range(4)] + [f"B{unit}" for unit in (3, 2, 1, 0)]
    known = {0: ("0", "1"), 1: ("2", "1")}
    for place, use in enumerate(uses):
        left = 15 + 7.9 * place
        colour, hatch = (BLUE, "") if use.startswith("F") else (ORANGE, "//")
        box(axes, left, 4.6, 7, 4.4, use, colour=colour, hatch=hatch)
        for row in range(2):
            text = known.get(place, ("?", "?"))[row]
            look = (GREEN, "..", "-") if text != "?" else ("white", "", ":")
            box(axes, left, 15.6 - 5.2 * row, 7, 4.4, text, colour=look[0], hatch=look[1], dash=look[2])
    word(axes, 13, 15.4, "room for two:\nwhole, or\non the way", ha="right", size=9.5)
    word(axes, 13, 6.8, "what is\ncomputed", ha="right", size=9.5)
    word(axes, 15, 23.6, "G0  G1  F0  R0  G2  F1  ...", ha="left", size=11, family="monospace")
    word(axes, 15, 1.8, "time", ha="left", size=9, color=GREY)
    arrow(axes, (19, 1.8), (77.5, 1.8), color=GREY)
    return figure


def hybrid() -> Figure:
    """Two machines of two ranks: shared out inside, the same between; a fast link and a slow one."""
    figure, axes = drawing(8, 3.3)
    for machine in range(2):
        left = 3 + 43 * machine
        box(axes, left, 2, 31, 24.5, colour=PALE, edge=GREY)
        word(axes, left + 15.5, 29, f"machine {machine}", weight="bold")
        for place in range(2):
            y = 17.6 - 11 * place
            number = 2 * machine + place
            rank(axes, left + 6.5, y + 2.4, number)
            rows = "upper half" if place == 0 else "lower half"
            box(axes, left + 12.5, y, 15.5, 4.8, f"{rows} of all rows", colour=COLOURS[place], size=8.5)
        arrow(axes, (left + 20.2, 17.2), (left + 20.2, 11.8), style="<|-|>", linewidth=4, head=16)
        word(axes, left + 15.4, 14.5, "fast", size=9.5, ha="right")
    for y in (20, 9):
        arrow(axes, (34.4, y), (45.6, y), style="<|-|>", color=RED)
    word(axes, 40, 14.5, "slow", size=9.5, color=RED)
    word(axes, 40, 23, "?", size=14, weight="bold", color=INK)
    word(axes, 40, 5.6, "?", size=14, weight="bold", color=INK)
    return figure
