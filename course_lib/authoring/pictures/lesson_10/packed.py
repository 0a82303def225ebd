"""A picture of a packed sequence: its documents, and the mask that keeps them apart."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, box, drawing, word

_LENGTHS = (10, 2, 2, 2)
_HATCHES = ("", "//", "\\\\", "..")


def mask() -> Figure:
    """A block-causal mask; a colour and a hatch for each document."""
    figure, axes = drawing(8, 4.4)
    side, left, top = 2.3, 17.0, 39.6
    owner = [number for number, length in enumerate(_LENGTHS) for _ in range(length)]
    for query, document in enumerate(owner):
        for key, other in enumerate(owner):
            seen = document == other and key <= query
            box(
                axes, left + side * key, top - side * (query + 1), side, side,
                colour=COLOURS[document] if seen else "white", edge="#BBBBBB",
                hatch=_HATCHES[document] if seen else "",
            )  # fmt: skip
    begin = 0
    for number, length in enumerate(_LENGTHS):
        word(axes, left - 1.4, top - side * (begin + length / 2), f"document {number}", ha="right", size=9.5)
        begin += length
    word(axes, left + side * len(owner) / 2, top + 1.6, "keys, in the order of the sequence")
    word(axes, 59, 34, "a small square:\none query, one key", ha="left", size=9.5)
    word(axes, 59, 26.4, "coloured: it looks\nat that key", ha="left", size=9.5)
    word(axes, 59, 18.8, "empty: not looked at,\nand not computed", ha="left", size=9.5)
    return figure
