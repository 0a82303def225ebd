"""The pictures of parts h and i: a rank of a ring, and one with experts, with what is asked of who builds them."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, PALE, arrow, box, drawing, rank, word

__all__ = ["experts_to_build", "ring_to_build"]

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


def experts_to_build() -> Figure:
    """What rank 1 of four has: tokens, a router, two experts; what lies between it and the others is asked."""
    figure, axes = drawing(8, 4.4)
    rank(axes, 9, 38.6, 1)
    word(axes, 9, 33.6, "its tokens", size=9, color=GREY)
    for place in range(6):
        box(axes, 2.4 + 2.3 * place, 28.4, 1.9, 3.4, colour=COLOURS[1])
    arrow(axes, (9, 28), (9, 24.6))
    box(axes, 3, 19.6, 12, 4.8, "router", colour=PALE, size=10)
    for owner in range(4):
        y = 31.4 - 8.2 * owner
        arrow(axes, (15.6, 22), (37.4, y + 2.6))
        for own in range(2):
            name = f"expert {2 * owner + own}"
            box(axes, 38 + 10.4 * own, y, 9.6, 5, name, colour=COLOURS[owner], size=8.5)
        rank(axes, 63, y + 2.4, owner)
    word(axes, 25.6, 37.4, "how many rows, and\nwho says so?", size=9.5)
    word(axes, 25.6, 22, "?", size=17, weight="bold", color=GREY)
    word(axes, 48, 39.6, "in which order?", size=9.5)
    word(axes, 73, 29.6, "equally\nbusy?", size=9.5)
    word(axes, 73, 9.2, "full: who is\nturned away?", size=9.5)
    word(axes, 40, 2.6, "which way do outputs go, and which way gradients?", size=9.5)
    arrow(axes, (37.4, 8.2), (15.6, 8.2), linestyle="--")
    word(axes, 26.5, 10.6, "?", size=13, weight="bold", color=GREY)
    return figure
