"""Pictures of part a: who meets before ranks start, a ring over two nodes, and an all-reduce in two levels."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from course_lib.authoring.pictures.sketch import COLOURS, GREY, INK, Point, arrow, box, drawing, rank, word
from course_lib.plot import OKABE_ITO

__all__ = ["meet", "ring", "storeys"]

BLUE, ORANGE, RED = (OKABE_ITO[name] for name in ("sky blue", "orange", "vermillion"))


# -- who meets ----------------------------------------------------------------------------------------------------


def _machine(axes: Axes, left: float, name: str, *, has_store: bool) -> None:
    box(axes, left, 3, 27, 27, edge=GREY)
    word(axes, left + 13.5, 33, f"machine {name}", size=11, weight="bold")
    box(axes, left + 3, 16.5, 10, 7, "agent", colour="white", size=10)
    for place in range(2):
        x = left + 4.6 + 8.4 * place
        axes.add_patch(Circle((x, 8), 3.1, facecolor="white", edgecolor=INK, linestyle="--", zorder=3))
        word(axes, x, 8, "rank ?", size=8.5, zorder=4)
        arrow(axes, (left + 8, 16.4), (x, 11.3), head=9, color=GREY, linestyle=":")
    if has_store:
        box(axes, left + 17, 15.5, 8, 9, "store", colour=BLUE, size=10)
        word(axes, left + 21, 12.8, ":29500", size=8.5, family="monospace")


def meet() -> Figure:
    """Two machines with an agent each; both agents go to the store on the first one, and ranks have no number yet."""
    figure, axes = drawing(8, 3.6)
    _machine(axes, 5, "zebra", has_store=True)
    _machine(axes, 48, "ant", has_store=False)
    arrow(axes, (18.2, 20), (21.8, 20), color=RED, linewidth=1.6)
    arrow(axes, (50.8, 20), (30.3, 20), color=RED, linewidth=1.6)
    word(axes, 40, 22.4, "I am here", size=9, color=RED, style="italic")
    word(axes, 40, 17.2, "the network", size=9, color=GREY)
    return figure


# -- a ring -------------------------------------------------------------------------------------------------------


def _ring(axes: Axes, left: float, nodes: tuple[tuple[int, int], tuple[int, int]], title: str, *, arrows: bool) -> None:
    """Ranks of two nodes, and maybe an arrow from each rank to the next in number."""
    spots: dict[int, Point] = {}
    for node, ranks in enumerate(nodes):
        x = left + 19 * node
        box(axes, x, 3, 13, 22, edge=GREY)
        word(axes, x + 6.5, 27, f"node {node}", size=9.5, weight="bold")
        for place, number in enumerate(ranks):
            spots[number] = (x + 6.5, 19.8 - 11.6 * place)
    for number, here in spots.items() if arrows else ():
        there = spots[(number + 1) % 4]
        crosses = abs(here[0] - there[0]) > 1
        colour, width = (RED, 2.2) if crosses else (INK, 1.6)
        arrow(axes, here, there, gap=24, zorder=5, color=colour, linewidth=width)
    for number, (x, y) in spots.items():
        rank(axes, x, y, number, radius=2.9)
    word(axes, left + 16, 31.5, title, size=10.5, weight="bold")


def ring() -> Figure:
    """A ring of four ranks on two nodes, numbered node by node; and ranks dealt in turn, their ring left out."""
    figure, axes = drawing(8, 3.5)
    _ring(axes, 4, ((0, 1), (2, 3)), "numbered node by node", arrows=True)
    _ring(axes, 44, ((0, 2), (1, 3)), "dealt out in turn", arrows=False)
    word(axes, 60, 14, "?", size=24, color=RED, weight="bold")
    return figure


# -- two storeys --------------------------------------------------------------------------------------------------


def _holding(axes: Axes, x: float, y: float, number: int, held: tuple[str, str]) -> None:
    """What one rank has: two halves of a tensor, known or not."""
    looks = {"own": (COLOURS[number], "", INK), "all": (INK, "Σ", "white"), "?": ("white", "?", RED)}
    for half, kind in enumerate(held):
        colour, text, ink = looks[kind]
        edge, dash = ("white", "-") if kind == "all" else (INK, ":" if kind == "?" else "-")
        box(
            axes,
            x + 4.2 * half,
            y,
            4.2,
            4.2,
            text,
            colour=colour,
            size=11,
            dash=dash,
            ink=ink,
            edge=edge,
        )


def _column(axes: Axes, x: float, title: str, held: tuple[str, str]) -> None:
    word(axes, x + 4.2, 35.5, title, size=9, weight="bold")
    for number in range(4):
        y = 27 - 6 * number - (2.6 if number > 1 else 0)
        _holding(axes, x, y, number, held)


def storeys() -> Figure:
    """Two nodes of two ranks: what each has at first and at last, and question marks between the three steps."""
    figure, axes = drawing(8, 3.9)
    for node in range(2):
        y = 19.7 - 14.6 * node
        box(axes, 1.5, y, 77, 13.3, edge=GREY)
        word(axes, 5.4, y + 6.6, f"node {node}", size=9.5, weight="bold")
    for number in range(4):
        word(axes, 12.5, 29.1 - 6 * number - (2.6 if number > 1 else 0), f"rank {number}", size=9)
    columns = (
        (17, "at first", ("own", "own")),
        (34, "after step 1", ("?", "?")),
        (51, "after step 2", ("?", "?")),
        (68, "at last", ("all", "all")),
    )
    for x, title, held in columns:
        _column(axes, x, title, held)
    for x, step in ((29.7, "inside"), (46.7, "between"), (63.7, "inside")):
        for y in (26.2, 11.6):
            arrow(axes, (x - 3.2, y), (x + 3.2, y), color=RED if step == "between" else INK, linewidth=1.6)
            word(axes, x, y + 2, step, size=8.5, color=RED if step == "between" else INK)
    word(axes, 40, 1.9, "own numbers in the rank's colour; Σ: the sum of all four ranks", size=8.5, color=GREY)
    return figure
