"""Draw the pictures of lesson 08: ``python assets/make_lesson_08.py`` writes assets/08_*.png beside itself.

The explorer is the widget's own picture; the others are drawings.
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sketch import COLOURS, GREY, INK, PALE, box, drawing, line, word

from course_lib.plot import OKABE_ITO, png
from course_lib.widgets import MatmulExplorer

HERE = Path(__file__).parent
ZERO, ONE, TWO, THREE = COLOURS
RED, WHITE = OKABE_ITO["vermillion"], "white"


def save(figure: Figure, name: str) -> None:
    (HERE / f"08_{name}.png").write_bytes(png(figure))


def matrix(
    axes: Axes, x: float, y: float, wide: float, high: float, parts: list[tuple[str, str]], *, dim: int | None,
    hatch: str = "",
) -> None:  # fmt: skip
    """A matrix with its lower left corner at (x, y); ``parts`` are colours and texts, from the left or from the top."""
    n = len(parts)
    for number, (colour, text) in enumerate(parts):
        if dim == 1:
            box(axes, x + number * wide / n, y, wide / n, high, text, colour=colour, size=10, hatch=hatch)
        else:
            box(
                axes,
                x,
                y + (n - 1 - number) * high / n,
                wide,
                high / n,
                text,
                colour=colour,
                size=10,
                hatch=hatch,
            )
    axes.add_patch(Rectangle((x, y), wide, high, facecolor="none", edgecolor=INK, linewidth=1.6))


def columns() -> None:
    figure, axes = drawing(8, 2.1)
    matrix(axes, 8, 4, 12, 10, [(PALE, "on both ranks")], dim=0)
    matrix(axes, 28, 4, 18, 10, [(ZERO, "rank 0"), (ONE, "rank 1")], dim=1)
    matrix(axes, 54, 4, 18, 10, [(ZERO, "X A₀"), (ONE, "X A₁")], dim=1)
    for x, text in ((14, "X"), (37, "A, cut by columns"), (63, "Y")):
        word(axes, x, 17, text, weight="bold", size=11)
    word(axes, 24, 9, "×", size=16)
    word(axes, 50, 9, "=", size=16)
    save(figure, "columns")


def rows() -> None:
    figure, axes = drawing(8, 2.6)
    matrix(axes, 3, 8, 12, 10, [(ZERO, "0"), (ONE, "1")], dim=1)
    matrix(axes, 21, 8, 16, 10, [(ZERO, "rank 0"), (ONE, "rank 1")], dim=0)
    for x, colour, text in ((43, ZERO, "Y₀"), (62, ONE, "Y₁")):
        matrix(axes, x, 8, 15, 10, [(colour, text)], dim=0, hatch="//")
    for x, text in ((9, "X"), (29, "A, cut by rows"), (50.5, "rank 0 has"), (69.5, "rank 1 has")):
        word(axes, x, 21, text, weight="bold", size=11)
    word(axes, 18, 13, "×", size=16)
    word(axes, 40, 13, "=", size=16)
    word(axes, 60, 13, "?", size=20, weight="bold")
    word(axes, 40, 3.4, "two products of the full shape: how do they become Y?", size=10.5)
    save(figure, "rows")


def tiles() -> None:
    figure, axes = drawing(8, 2.5)
    matrix(axes, 8, 6, 12, 12, [(PALE, ""), (PALE, "")], dim=1)
    word(axes, 11, 12, "for\n0, 1", size=9)
    word(axes, 17, 12, "for\n2, 3", size=9)
    for number, colour in enumerate(COLOURS):
        row, column = divmod(number, 2)
        box(axes, 28 + 10 * column, 12 - 6 * row, 10, 6, f"rank {number}", colour=colour, size=10)
    for column, (colours, text) in enumerate((((ZERO, TWO), "0 + 2"), ((ONE, THREE), "1 + 3"))):
        box(axes, 58 + 8 * column, 12, 8, 6, "", colour=colours[0], hatch="//")
        box(axes, 58 + 8 * column, 6, 8, 6, "", colour=colours[1], hatch="//")
        ground = {"facecolor": WHITE, "edgecolor": "none", "pad": 2}
        word(axes, 62 + 8 * column, 12, text, size=10, color="black", bbox=ground)
    for x, text in ((14, "X"), (38, "A, in tiles"), (66, "Y, added up in pairs")):
        word(axes, x, 21.5, text, weight="bold", size=11)
    word(axes, 24, 12, "×", size=16)
    word(axes, 53, 12, "=", size=16)
    save(figure, "tiles")


def backward() -> None:
    figure, axes = drawing(8, 3.3)
    for top, title in ((22, "forward"), (7, "backward")):
        word(axes, 6, top, title, weight="bold", size=11)
        for row, (colour, number) in enumerate(((ZERO, 0), (ONE, 1))):
            y = top + 3.4 - 6.8 * row
            box(axes, 34, y - 2.4, 12, 4.8, f"A{'₀₁'[number]}", colour=colour)
            if top == 22:
                box(axes, 60, y - 2.4, 14, 4.8, f"Y{'₀₁'[number]}", colour=colour)
                line(axes, (24.5, top), (33.6, y))
                line(axes, (46.4, y), (59.6, y))
            else:
                box(axes, 60, y - 2.4, 14, 4.8, f"dY{'₀₁'[number]}", colour=colour)
                line(axes, (59.6, y), (46.4, y))
                line(axes, (33.6, y), (24.9, top))
        if top == 22:
            box(axes, 14, top - 2.4, 10, 4.8, "X")
        else:
            box(axes, 14, top - 2.4, 10, 4.8, "dX ?", dash="--", size=11)
    word(axes, 40, 31.6, "A is cut by columns: one part on each rank", size=10)
    save(figure, "backward")


def explorer() -> None:
    widget = MatmulExplorer()
    widget.num_ranks.value, widget.x.value = "4", "cut by columns"
    widget.a.value, widget.y.value = "cut by rows", "whole"
    (HERE / "08_explorer.png").write_bytes(widget.picture().png())


def between() -> None:
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
                colour=PALE if text in ("X", "GELU") else OKABE_ITO["yellow"],
            )
    for start, end in ((12, 20), (33, 41), (51, 59), (68, 75)):
        line(axes, (start + 0.3, 9), (end - 0.3, 9))
    word(axes, 46, 16.2, "nothing may travel here", size=10)
    word(axes, 26.5, 2, "(width, 4 width)", size=9, color=GREY)
    word(axes, 63.5, 2, "(4 width, width)", size=9, color=GREY)
    save(figure, "between")


def region(name: str, texts: tuple[str, str, str, str]) -> None:
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
            line(axes, *((start, end) if title == "forward" else (end, start)))
        word(axes, 17.6, y + 4.6, at_entrance, size=10, **looks.get(at_entrance, {}))
        word(axes, 62.5, y + 3, at_exit, size=10, **looks.get(at_exit, {}))
    save(figure, name)


def gates() -> None:
    region("gates", ("?", "?", "?", "?"))
    region("region", ("passes", "all-reduce", "passes", "all-reduce"))


def block() -> None:
    figure, axes = drawing(8, 2.7)
    line(axes, (1, 6), (78.5, 6))
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
            bbox={"facecolor": WHITE, "edgecolor": INK, "pad": 2},
        )
        line(axes, (left + 0.6, 6), (left + 2.4, 10.3))
        line(axes, (left + 5.7, 13), (left + 7.8, 13))
        line(axes, (left + 10.7, 13), (left + 12.4, 13))
        line(axes, (left + 22.6, 13), (left + 24.3, 13))
        line(axes, (left + 27.2, 13), (left + 30.4, 7.7))
    word(axes, 40, 2.4, "norms and the stream below: the same on all ranks", size=10)
    word(axes, 40, 25, "f: all-reduce backward      g: all-reduce forward", size=10, color=RED)
    save(figure, "block")


def vocabulary() -> None:
    figure, axes = drawing(8, 2.7)
    word(axes, 28, 24.4, "logits: a row for each position, a column for each token", weight="bold", size=10)
    for number, colour in enumerate((ZERO, ONE)):
        for row in range(4):
            for column in range(6):
                left = 4 + 24.5 * number + 3.9 * column
                axes.add_patch(
                    Rectangle((left, 16.5 - 3.6 * row), 3.7, 3.3, facecolor=colour, edgecolor=WHITE)
                )
        word(axes, 15.7 + 24.5 * number, 2.6, f"rank {number}: its tokens", size=10)
    axes.add_patch(Rectangle((3.5, 16.2), 48.7, 3.9, facecolor="none", edgecolor=INK, linewidth=1.8))
    line(axes, (52.6, 18.2), (57.6, 18.2))
    box(axes, 58, 15.4, 18, 5.6, "the position's loss", size=9.5)
    word(axes, 67, 10.4, "which numbers must the ranks\nhand in for a row?", size=9.5)
    word(axes, 67, 5, "?", size=20, weight="bold", color=RED)
    save(figure, "vocabulary")


def whole_model() -> None:
    figure, axes = drawing(8, 2.5)
    names = ("stem", "block", "block", "head")
    for number, name in enumerate(names):
        box(axes, 4 + 7.4 * number, 8, 6.6, 10, name, size=9.5)
        for part, colour in enumerate((ZERO, ONE)):
            box(
                axes,
                45 + 8.4 * number,
                13.4 - 5.2 * part,
                7.4,
                4.8,
                f"{name} {part}",
                colour=colour,
                size=8.5,
            )
    word(axes, 18.5, 21, "one device", weight="bold")
    word(axes, 61.5, 21, "two ranks, half of every matrix each", weight="bold")
    word(axes, 39.6, 13, "=\u2009?", size=18, weight="bold")
    word(axes, 40, 3.4, "after five steps of AdamW: every weight the same?", size=10)
    save(figure, "model")


def sequence() -> None:
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
        line(axes, (x - 3.2, 13.6), (x + 3.2, 13.6))
    for x, text in (
        (13, "norm, dropout, residual"),
        (39, "attention or MLP"),
        (65, "norm, dropout, residual"),
    ):
        word(axes, x, 2.2, text, size=9.5)
    save(figure, "sequence")


def link() -> None:
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
    save(figure, "link")


def clinic() -> None:
    figure, axes = drawing(8, 2.7)
    box(axes, 4, 3, 34, 21, "")
    steps = torch.linspace(0, 1, 30)
    for number, sign in ((0, 1.0), (1, -0.75)):
        y = 13.5 + sign * 8.4 * steps**1.5
        axes.plot(6 + 24 * steps, y, color=COLOURS[number], linewidth=3, linestyle=("-", "--")[number])
        word(axes, 34, float(y[-1]), f"rank {number}", size=9)
    word(axes, 21, 25.4, "a norm's weight, on two ranks", size=10, weight="bold")
    word(axes, 21, 1.4, "steps", size=9.5)
    box(axes, 44, 3, 33, 21, "")
    rows = (
        "what to look for",
        "which gradients are right?",
        "which are alike on both ranks?",
        "where does it turn?",
    )
    for number, text in enumerate(rows):
        word(
            axes, 46, 20 - 4.6 * number, text, ha="left", size=10, weight="bold" if number == 0 else "normal"
        )
    save(figure, "clinic")


def masks() -> None:
    figure, axes = drawing(8, 2.9)
    patterns = {"the same seed": ("10110010", "10110010"), "numbers of its own": ("10110010", "01011011")}
    for row, (title, kept) in enumerate(patterns.items()):
        y = 17.5 - 12.5 * row
        word(axes, 2, y + 3, title, ha="left", weight="bold", size=10)
        for number, pattern in enumerate(kept):
            left = 22 + 29 * number
            word(axes, left + 13, y + 8.2, f"hidden units of rank {number}", size=9.5)
            for place, keep in enumerate(pattern):
                colour = COLOURS[number] if keep == "1" else WHITE
                box(
                    axes,
                    left + 3.3 * place,
                    y + 1,
                    3,
                    4.4,
                    "" if keep == "1" else "×",
                    colour=colour,
                    size=12,
                )
    word(axes, 40, 1.8, "×: dropped", size=9.5, color=GREY)
    save(figure, "masks")


def dropout() -> None:
    """Two ranks, eight hidden units each; nothing said about which are dropped."""
    figure, axes = drawing(8, 1.9)
    for number in range(2):
        left = 10 + 31 * number
        word(axes, left + 14, 15.5, f"hidden units of rank {number}", weight="bold", size=10)
        for place in range(8):
            box(axes, left + 3.6 * place, 7, 3.3, 5, "?", colour=COLOURS[number], size=11)
            word(axes, left + 3.6 * place + 1.65, 4.8, str(place), size=8.5, color=GREY)
    word(axes, 40, 1.6, "one layer of 16 units: which of them are dropped?", size=10)
    save(figure, "dropout")


def gather() -> None:
    """Logits that bear their position and token: as wanted, and as two ranks' parts stacked and viewed."""
    figure, axes = drawing(8, 2.3)
    tables = (
        ("wanted", ("00", "01", "02", "03", "10", "11", "12", "13")),
        ("got", ("00", "01", "10", "11", "02", "03", "12", "13")),
    )
    for column, (title, cells) in enumerate(tables):
        left = 8 + 36 * column
        word(axes, left + 14, 20.4, title, weight="bold", size=11)
        for number, cell in enumerate(cells):
            row, place = divmod(number, 4)
            colour = COLOURS[int(cell[1]) // 2]
            hatch = "//" if cell[0] == "1" else ""
            box(axes, left + 7 * place, 11.4 - 5.6 * row, 7, 5.6, cell, colour=colour, hatch=hatch, size=10.5)
    word(
        axes,
        40,
        2,
        "first digit: position (1 is hatched); second: token; colour: the rank that computed it",
        size=9.5,
    )
    save(figure, "gather")


def production() -> None:
    figure, axes = drawing(8, 2.7)
    rows = (
        ("attention.w_q, w_k, w_v", "ColwiseParallel()", 1),
        ("attention.w_out", "RowwiseParallel()", 0),
        ("mlp.w_up", "ColwiseParallel()", 1),
        ("mlp.w_down", "RowwiseParallel()", 0),
    )
    for number, (name, plan, dim) in enumerate(rows):
        y = 19 - 5.6 * number
        word(axes, 6, y + 2, name, ha="left", family="DejaVu Sans Mono", size=10)
        word(axes, 36, y + 2, plan, ha="left", family="DejaVu Sans Mono", size=10)
        matrix(axes, 63, y, 9, 4.2, [(ZERO, "0"), (ONE, "1")], dim=dim)
    word(axes, 40, 25, "the plan, and how A is cut in each case", weight="bold", size=10.5)
    save(figure, "production")


def main() -> None:
    for draw in (
        columns, rows, tiles, backward, explorer, between, gates, block, vocabulary, whole_model, sequence, link,
        clinic, masks, dropout, gather, production,
    ):  # fmt: skip
        draw()


if __name__ == "__main__":
    main()
