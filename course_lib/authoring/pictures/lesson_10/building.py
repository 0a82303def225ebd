"""The picture of part h: a rank of the ring, forward and backward, with what is asked of who builds it."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, PALE, arrow, box, drawing, rank, word

__all__ = ["ring_to_build"]

_OWNERS = (1, 0, 3, 2)  # of the blocks that rank 1 meets
_KEYS = "//"


def ring_to_build() -> Figure:
    """What rank 1 of four meets: blocks of keys and values, one by one; what lies between and behind is asked."""
    figure, axes = drawing(8, 3.8)
    word(axes, 41, 35.6, "when does the next block set out, and who waits for it?", size=9.5)
    for y, name in ((25.8, "forward"), (12.4, "backward")):
        word(axes, 7.5, y + 2, name, weight="bold")
        for step, owner in enumerate(_OWNERS):
            left = 16 + 15 * step
            box(axes, left, y, 9, 4.4, f"k, v {owner}", colour=COLOURS[owner], hatch=_KEYS)
            if step < len(_OWNERS) - 1:
                arrow(axes, (left + 9.4, y + 2.2), (left + 14.6, y + 2.2))
                word(axes, left + 12, y + 5, "?", size=13, weight="bold", color=GREY)
            if name == "backward":
                box(axes, left, y - 5, 9, 3.8, "?", colour=PALE, dash="--", edge=GREY, size=12)
    rank(axes, 7.5, 21.2, 1)
    for step in range(len(_OWNERS)):
        word(axes, 20.5 + 15 * step, 21.6, "which pairs?", size=9, color=GREY)
    word(axes, 41, 3.4, "what goes along behind the keys, and whose is it in the end?", size=9.5)
    return figure
