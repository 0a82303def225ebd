"""Which units are whole or being gathered while each forward and backward of a step is computed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from matplotlib.patches import Rectangle

from course_lib.plot.style import OKABE_ITO, Look, Picture, canvas, key, outlined, text_colour

__all__ = ["slots_chart"]

_WORD = re.compile(r"([GFBR])(\d+)")
_LOOKS = {
    "computed now": Look(OKABE_ITO["orange"], "//", ""),
    "whole, or being gathered": Look(OKABE_ITO["green"], "..", ""),
}


def slots_chart(order: Sequence[str], *, title: str = "") -> Picture:
    """A column for each F and B of ``order``, and in it the units that are gathered and not yet let go.

    The words are G, F, B and R with the number of a unit: its all-gather begins, its forward, its backward, and it is
    let go. A unit keeps its row as long as it is there. ``ValueError`` for other words, and for no F or B.
    """
    moments = _moments(order)
    rooms = max(max(slots, default=-1) + 1 for _, slots in moments)
    with canvas(width=8.0, height=1.5 + 0.42 * rooms, title=title) as (figure, axes):
        for column, (word, slots) in enumerate(moments):
            for slot, unit in slots.items():
                look = _LOOKS["computed now" if f"{unit}" == word[1:] else "whole, or being gathered"]
                axes.add_patch(Rectangle((column - 0.44, slot - 0.4), 0.88, 0.8, **outlined(look)))
                paper = {"boxstyle": "round,pad=0.14", "facecolor": look.colour, "edgecolor": "none"}
                ink = {"color": text_colour(look.colour), "bbox": paper}
                axes.text(column, slot, f"{unit}", ha="center", va="center", fontsize=9, **ink)
        axes.set_xticks(range(len(moments)), labels=[word for word, _ in moments])
        axes.set_yticks(range(rooms), labels=[f"room {room}" for room in range(rooms)])
        axes.set_xlim(-0.6, len(moments) - 0.4)
        axes.set_ylim(rooms - 0.45, -0.55)
        axes.set_xlabel("what is computed, from the first to the last")
        axes.grid(visible=False)
        key(figure, _LOOKS)
    return Picture(figure, _words(order, moments, title))


def _moments(order: Sequence[str]) -> list[tuple[str, dict[int, int]]]:
    """Each word that computes, with the unit in each slot at that moment."""
    slots: dict[int, int] = {}
    found = []
    for word in order:
        if not (match := _WORD.fullmatch(word)):
            raise ValueError(f"{word!r} is not part of an order; a part is G, F, B or R and a number, such as G0")
        what, unit = match[1], int(match[2])
        if what == "G" and unit not in slots.values():
            slots[next(slot for slot in range(len(slots) + 1) if slot not in slots)] = unit
        elif what == "R":
            slots = {slot: other for slot, other in slots.items() if other != unit}
        elif what in "FB":
            found.append((word, dict(sorted(slots.items()))))
    if not found:
        raise ValueError("nothing is computed in this order; it has no F and no B")
    return found


def _words(order: Sequence[str], moments: Sequence[tuple[str, dict[int, int]]], title: str) -> str:
    at = (f"at {word} the units {', '.join(map(str, slots.values())) or 'none'}" for word, slots in moments)
    return f"{title or 'Units that are whole or being gathered'}: {'; '.join(at)}. The order: {' '.join(order)}."
