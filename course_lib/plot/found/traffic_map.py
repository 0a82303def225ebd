"""Who sends how much to whom, on two nodes: an arrow for each pair of ranks that exchange something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle

from course_lib.base.checks import at_most
from course_lib.meter.units import bytes_text
from course_lib.plot.style import OKABE_ITO, OUTLINE, Picture, canvas, text_colour, word_colour

__all__ = ["traffic_map"]

Matrix = Sequence[Sequence[int]]  # [i][j]: bytes from rank i to rank j
Nodes = Sequence[Sequence[int]]  # the ranks of each node
Spot = tuple[float, float]

_COLOURS = [OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple")]
_WIDE, _HIGH = 4.3, 3.1  # of a panel, in inches
_COLUMNS, _ROWS, _RADIUS = (0.7, 3.6), (1.05, 2.35), 0.3  # where ranks stand, from the upper left corner
_WITHIN, _BETWEEN = word_colour(OKABE_ITO["blue"]), word_colour(OKABE_ITO["vermillion"])


def traffic_map(panels: Mapping[str, tuple[Matrix, Nodes]], *, place: str = "node", title: str = "") -> Picture:
    """A panel for each name: ``(matrix, nodes)``, where ``matrix[i][j]`` are the bytes from rank i to rank j.

    ``nodes`` are two, of two ranks at most, each by its ranks from the top down. A line within a node is solid, one
    between nodes dashed; below each node stands how much leaves it. ``place`` is another word for a node.
    ``ValueError`` for no panel, more or fewer nodes, more ranks, and a matrix that is not square or lacks a rank.
    """
    if not panels:
        raise ValueError("there is no traffic to draw; give at least one panel")
    for matrix, nodes in panels.values():
        _checked(matrix, nodes)
    with canvas(width=_WIDE * len(panels), height=_HIGH + 0.35 * bool(title), title=title) as (figure, axes):
        axes.set(xlim=(0, _WIDE * len(panels)), ylim=(_HIGH, 0))
        axes.axis("off")
        for number, (name, panel) in enumerate(panels.items()):
            axes.text(_WIDE * number + 0.2, 0.12, name, fontsize=10, weight="bold", va="center")
            _panel(axes, _WIDE * number, panel, place)
    said = [f"{title}." * bool(title), *(_words(name, panel, place) for name, panel in panels.items())]
    return Picture(figure, " ".join(said).strip())


def _checked(matrix: Matrix, nodes: Nodes) -> None:
    if len(nodes) != 2:
        raise ValueError(f"there are {len(nodes)} nodes; this picture draws two")
    at_most(2, ranks=max(len(ranks) for ranks in nodes))
    if any(len(row) != len(matrix) for row in matrix) or not all(0 <= r < len(matrix) for of in nodes for r in of):
        raise ValueError(f"a matrix of {len(matrix)} rows does not say what each of the ranks {list(nodes)} sends")


def _panel(axes: Axes, left: float, panel: tuple[Matrix, Nodes], place: str) -> None:
    matrix, nodes = panel
    spots = {
        rank: (left + x, y)
        for x, ranks in zip(_COLUMNS, nodes, strict=True)
        for rank, y in zip(ranks, _ROWS, strict=False)
    }
    node_of = {rank: node for node, ranks in enumerate(nodes) for rank in ranks}
    for node, x in enumerate(_COLUMNS):
        axes.add_patch(Rectangle((left + x - 0.45, 0.62), 0.9, 2.16, facecolor="#F3F3F3", edgecolor=OUTLINE, zorder=0))
        axes.text(left + x, 0.47, f"{place} {node}", ha="center", va="center", fontsize=9)
        leaving = bytes_text(_leaving(matrix, nodes, node))
        axes.text(left + x, 2.95, f"{leaving} leave", ha="center", va="center", fontsize=9, weight="bold")
    for one, other in combinations(sorted(spots), 2):
        there, back = matrix[one][other], matrix[other][one]
        if there or back:
            _arrow(axes, spots, (one, other), (there, back), crosses=node_of[one] != node_of[other])
    for rank, (x, y) in spots.items():
        colour = _COLOURS[rank % len(_COLOURS)]
        axes.add_patch(Circle((x, y), _RADIUS, facecolor=colour, edgecolor=OUTLINE, zorder=4))
        axes.text(x, y, f"rank {rank}", ha="center", va="center", fontsize=8, color=text_colour(colour), zorder=5)


def _arrow(
    axes: Axes, spots: Mapping[int, Spot], pair: tuple[int, int], sizes: tuple[int, int], *, crosses: bool
) -> None:
    """From the first rank to the second, back, or both ways; the label stands nearer to the first on a diagonal."""
    (x0, y0), (x1, y1) = (spots[rank] for rank in pair)
    there, back = sizes
    style = "<|-|>" if there and back else "-|>" if there else "<|-"
    ink = _BETWEEN if crosses else _WITHIN
    look = {"arrowstyle": style, "color": ink, "linewidth": 1.8, "linestyle": "--" if crosses else "-"}
    axes.annotate("", (x1, y1), (x0, y0), arrowprops={**look, "shrinkA": 23, "shrinkB": 23}, zorder=2)
    along = 0.5 if x0 == x1 or y0 == y1 else 0.32
    x, y = x0 + along * (x1 - x0), y0 + along * (y1 - y0)
    paper = {"boxstyle": "round,pad=0.15", "facecolor": "white" if crosses else "#F3F3F3", "edgecolor": "none"}
    text = "\n".join(_size_words(pair, sizes))
    axes.text(x, y, text, ha="center", va="center", fontsize=8, color=OUTLINE, bbox=paper, zorder=3)


def _size_words(pair: tuple[int, int], sizes: tuple[int, int]) -> list[str]:
    there, back = sizes
    if there == back:
        return [bytes_text(there), "each way"]
    ways = ((pair[0], pair[1], there), (pair[1], pair[0], back))
    return [f"{a}→{b}: {bytes_text(size)}" for a, b, size in ways if size]


def _leaving(matrix: Matrix, nodes: Nodes, node: int) -> int:
    return sum(matrix[one][other] for one in nodes[node] for other in nodes[1 - node])


def _words(name: str, panel: tuple[Matrix, Nodes], place: str) -> str:
    matrix, nodes = panel
    here = [rank for ranks in nodes for rank in ranks]
    sent = [
        f"rank {i} sends rank {j} {bytes_text(matrix[i][j])}"
        for i in sorted(here)
        for j in sorted(here)
        if matrix[i][j]
    ]
    left = [f"{bytes_text(_leaving(matrix, nodes, node))} leave {place} {node}" for node in range(2)]
    who = [f"{place} {node} has the ranks {', '.join(map(str, ranks))}" for node, ranks in enumerate(nodes)]
    return f"{name}: {'; '.join([*who, *sent, *left])}."
