"""Pictures of regions: where ranks work on features of their own, and of the gates at both ends."""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, PALE, arrow, box, drawing, word
from course_lib.plot import OKABE_ITO

ZERO, ONE = COLOURS[:2]
RED = OKABE_ITO["vermillion"]


def between() -> Figure:
    """Two products and a GELU between them: how are A and B cut?"""
    figure, axes = drawing(8, 1.9)
    for x, wide, text in ((4, 8, "X"), (20, 13, "A  ?"), (41, 10, "GELU"), (59, 9, "B  ?"), (74, 5, "")):
        if text:
            box(
                axes,
                x,
                5,
                wide,
                8,
                text,
                size=12,
                colour=PALE if text in ("X", "GELU") else OKABE_ITO["purple"],
            )
    for start, end in ((12, 20), (33, 41), (51, 59), (68, 75)):
        arrow(axes, (start + 0.3, 9), (end - 0.3, 9))
    word(axes, 46, 16.2, "nothing may travel here", size=10)
    word(axes, 26.5, 2, "(width, 4 width)", size=9, color=GREY)
    word(axes, 63.5, 2, "(4 width, width)", size=9, color=GREY)
    return figure


def region_with(texts: tuple[str, str, str, str]) -> Figure:
    """Two gates and two ranks between them; ``texts`` say what happens: forward in, out, backward out, in."""
    figure, axes = drawing(8, 3.8)
    for x, gate in ((23, "entrance"), (52, "exit")):
        box(axes, x, 2.5, 5, 27.5, colour="#DDDDDD", hatch="..")
        word(axes, x + 2.5, 32, gate, size=10, weight="bold")
    word(axes, 40, 36, "the region: each rank has features of its own", size=10)
    looks = {text: {"color": RED, "weight": "bold"} for text in texts if text != "passes"}
    rows = ((22.5, "forward", "X", "Y", texts[:2]), (9, "backward", "dX", "dY", texts[3:1:-1]))
    for y, title, left, right, (at_entrance, at_exit) in rows:
        word(axes, 5.5, y, title, weight="bold", size=11)
        box(axes, 12, y - 2.3, 7, 4.6, left)
        box(axes, 68, y - 2.3, 7, 4.6, right)
        arrows = [((19.3, y), (22.7, y)), ((57.3, y), (67.7, y))]
        for number, colour in enumerate((ZERO, ONE)):
            middle = y + 3.2 - 6.4 * number
            box(axes, 32.5, middle - 2.3, 15, 4.6, f"rank {number}", colour=colour)
            arrows += [((28.3, middle), (32.2, middle)), ((47.8, middle), (51.7, middle))]
        for start, end in arrows:
            arrow(axes, *((start, end) if title == "forward" else (end, start)))
        word(axes, 17.6, y + 4.6, at_entrance, size=10, **looks.get(at_entrance, {}))
        word(axes, 62.5, y + 3, at_exit, size=10, **looks.get(at_exit, {}))
    return figure


def gates() -> Figure:
    """The gates, before it is known what they do."""
    return region_with(("?", "?", "?", "?"))


def region() -> Figure:
    """The gates of a region, and the direction in which each of them communicates."""
    return region_with(("passes", "all-reduce", "passes", "all-reduce"))


def block() -> Figure:
    """A transformer block: two regions between their gates, and the stream below."""
    figure, axes = drawing(8, 2.7)
    arrow(axes, (1, 6), (78.5, 6))
    for left, name, parts in ((4, "attention", "heads\n"), (42, "MLP", "hidden\nunits ")):
        box(axes, left, 10.5, 5.5, 5, "norm", size=9)
        box(axes, left + 8, 8.6, 2.6, 9, "f", colour="#DDDDDD")
        for number, colour in enumerate(COLOURS):
            box(
                axes,
                left + 12.5,
                16.2 - 2.9 * number,
                10,
                2.7,
                f"{parts.split()[0]} {number}",
                colour=colour,
                size=8,
            )
        box(axes, left + 24.4, 8.6, 2.6, 9, "g", colour="#DDDDDD")
        word(axes, left + 17.4, 21.4, f"{name}: rank by rank", weight="bold", size=10)
        word(
            axes,
            left + 30.5,
            6,
            "+",
            size=13,
            weight="bold",
            bbox={"facecolor": "white", "edgecolor": INK, "pad": 2},
        )
        arrow(axes, (left + 0.6, 6), (left + 2.4, 10.3))
        arrow(axes, (left + 5.7, 13), (left + 7.8, 13))
        arrow(axes, (left + 10.7, 13), (left + 12.4, 13))
        arrow(axes, (left + 22.6, 13), (left + 24.3, 13))
        arrow(axes, (left + 27.2, 13), (left + 30.4, 7.7))
    word(axes, 40, 2.4, "norms and the stream below: the same on all ranks", size=10)
    word(axes, 40, 25, "f: all-reduce backward      g: all-reduce forward", size=10, color=RED)
    return figure


def sequence() -> Figure:
    """Positions shared out between the regions, features within them."""
    figure, axes = drawing(8, 2.9)
    for start in (3, 55):
        word(axes, start + 10, 26.2, "positions", weight="bold", size=10)
        for number, colour in enumerate(COLOURS):
            box(
                axes,
                start,
                19 - 4.6 * number,
                20,
                4.2,
                f"rank {number}: some positions",
                colour=colour,
                size=8,
            )
    word(axes, 39, 26.2, "features", weight="bold", size=10)
    for number, colour in enumerate(COLOURS):
        box(axes, 30.4 + 4.4 * number, 5.2, 4, 18, f"{number}", colour=colour)
    for x, text in ((26.6, "all-\ngather"), (51.4, "reduce-\nscatter")):
        word(axes, x, 17.4, text, size=8.5, color=RED, weight="bold")
        arrow(axes, (x - 3.2, 13.6), (x + 3.2, 13.6))
    for x, text in (
        (13, "norm, dropout, residual"),
        (39, "attention or MLP"),
        (65, "norm, dropout, residual"),
    ):
        word(axes, x, 2.2, text, size=9.5)
    return figure


def link() -> Figure:
    """Tensor parallelism waits after every region; data parallelism sends beside its backward pass."""
    figure, axes = drawing(8, 3.0)
    word(axes, 2, 27.4, "tensor parallel: the next region needs the sum now", ha="left", weight="bold")
    left = 2.0
    for number in range(6):
        is_forward = number < 3
        wide = 4.2 if is_forward else 6.6
        colour, hatch = ("sky blue", "") if is_forward else ("orange", "//")
        box(axes, left, 20.6, wide, 4.2, "", colour=OKABE_ITO[colour], hatch=hatch)
        box(axes, left + wide, 16.2, 6.4, 4.2, "sum", colour=RED, size=8.5)
        left += wide + 6.4
    word(axes, 2, 12.2, "data parallel: gradients leave while backward goes on", ha="left", weight="bold")
    box(axes, 2, 5.6, 12.6, 4.2, "forward", colour=OKABE_ITO["sky blue"], size=9)
    box(axes, 14.6, 5.6, 19.8, 4.2, "backward", colour=OKABE_ITO["orange"], hatch="//", size=9)
    for start, wide in ((21.2, 6.2), (27.8, 6.2), (34.6, 6.2)):
        box(axes, start, 1.2, wide, 4.2, "sum", colour=RED, size=8.5)
    word(axes, 44, 3.2, "which is slower depends on the link", ha="left", size=10)
    return figure


def hidden() -> Figure:
    """The backward pass of an entrance: its sum waited for at once, and beside the product for the weight."""
    figure, axes = drawing(8, 2.7)
    blue, orange = OKABE_ITO["sky blue"], OKABE_ITO["orange"]
    word(axes, 2, 24.6, "one after the other", ha="left", weight="bold")
    for left, wide, text, colour, hatch in (
        (2, 20, "dX = dY Aᵀ", blue, ""),
        (22, 16, "sum of dX", RED, ".."),
        (38, 20, "dA = Xᵀ dY", orange, "//"),
    ):
        box(axes, left, 18, wide, 4.4, text, colour=colour, hatch=hatch)
    word(axes, 2, 13.6, "side by side", ha="left", weight="bold")
    box(axes, 2, 7, 20, 4.4, "dX = dY Aᵀ", colour=blue)
    box(axes, 22, 7, 20, 4.4, "dA = Xᵀ dY", colour=orange, hatch="//")
    box(axes, 22, 2.2, 16, 4.4, "sum of dX", colour=RED, hatch="..")
    word(axes, 44, 9.2, "what the rank computes", ha="left", size=9.5)
    word(axes, 44, 4.4, "what is on its way", ha="left", size=9.5)
    return figure
