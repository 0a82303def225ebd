"""A split matmul, rank by rank: what each holds of X and A, what it gets when it multiplies, and its part of Y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PatchCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from course_lib.parallel.tensor import MatmulPlan, Partial, Placement, Shard
from course_lib.plot.style import OKABE_ITO, Look, Picture, outlined, style, text_colour

__all__ = ["BoardColumn", "HeldTiles", "MatmulBoard", "cut_in_words", "plan_columns", "tile_columns"]

Box = tuple[float, float, float, float]  # left, top, width, height, as shares of the whole matrix

_COLOURS = [OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple")]
_LEFTS, _WIDTHS, _HIGH = (0.75, 2.25, 4.0, 6.45), (1.0, 1.2, 1.2, 1.2), 0.62  # inches: X, A, X A, Y
_TOP, _ROW, _FOOT = 0.62, 0.82, 0.12  # inches: above the first rank's row, from row to row, below the last
_SIGNS = ((2.0, "×"), (3.72, "="), (5.85, "→"))
_WHOLE: Box = (0, 0, 1, 1)


@dataclass(frozen=True)
class HeldTiles:
    """What one rank uses of a matrix; ``before``: what it held until something moved, where that is not the same."""

    box: Box
    is_summand: bool = False
    before: Box | None = None


@dataclass(frozen=True)
class BoardColumn:
    """One matrix on all ranks: what it is called, how it is placed, what moves it first, and who has what."""

    title: str
    placed: str
    held: Sequence[HeldTiles]
    first: str = ""


def cut_in_words(placement: Placement) -> str:
    """ "cut by rows", "on every rank", "partial sums"."""
    if isinstance(placement, Shard):
        return f"cut by {('rows', 'columns')[placement.dim]}"
    return "partial sums" if isinstance(placement, Partial) else "on every rank"


def plan_columns(plan: MatmulPlan, num_ranks: int) -> tuple[list[BoardColumn], str]:
    """The four matrices of a plan, and what turns the product into Y."""
    moved = {step.tensor: step.collective for step in plan.forward} if num_ranks > 1 else {}

    def column(title: str, given: Placement, used: Placement) -> BoardColumn:
        moves = given != used and num_ranks > 1
        held = [
            HeldTiles(
                _share(used, rank, num_ranks),
                isinstance(used, Partial) and num_ranks > 1,
                _share(given, rank, num_ranks) if moves else None,
            )
            for rank in range(num_ranks)
        ]
        return BoardColumn(title, f"{given}: {cut_in_words(given)}", held, f"{moved[title]} first" if moves else "")

    columns = [
        column("X", plan.x, plan.x_used),
        column("A", plan.a, plan.a_used),
        column("X A, on each rank", plan.product, plan.product),
        column("Y", plan.y, plan.y),
    ]
    return columns, moved.get("Y", "stays")


def tile_columns(side: int = 2) -> tuple[list[BoardColumn], str]:
    """The same for A in tiles on a square of ranks: rank ``side * i + j`` has tile (i, j)."""
    places = [divmod(rank, side) for rank in range(side**2)]
    left = [_share(Shard(1), i, side) for i, _ in places]
    tile = [(j / side, i / side, 1 / side, 1 / side) for i, j in places]
    right = [_share(Shard(1), j, side) for _, j in places]
    return [
        BoardColumn("X", "in halves", [HeldTiles(box) for box in left]),
        BoardColumn("A", "in tiles", [HeldTiles(box) for box in tile]),
        BoardColumn("X A, on each rank", "partial sums", [HeldTiles(box, is_summand=True) for box in right]),
        BoardColumn("Y", "in halves", [HeldTiles(box) for box in right]),
    ], "all_reduce"


def _share(placement: Placement, rank: int, num_ranks: int) -> Box:
    if not isinstance(placement, Shard):
        return _WHOLE
    if placement.dim == 0:
        return (0, rank / num_ranks, 1, 1 / num_ranks)
    return (rank / num_ranks, 0, 1 / num_ranks, 1)


class MatmulBoard:
    """Drawn again and again by a widget: a row for each rank, and four matrices in it.

    A dashed outline is a whole matrix; what the rank multiplies, or gets, is filled with its colour and bears its
    number. Heavy borders mark what it held before anything moved; hatching and a plus sign stand for a summand.
    """

    def __init__(self) -> None:
        self._figure = Figure(figsize=(8.0, 4.0), facecolor="white")
        FigureCanvasAgg(self._figure)
        self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.axis("off")

    def draw(self, columns: Sequence[BoardColumn], moved: str, alt: str) -> Picture:
        """The matrices, from left to right, and what happens before the last; draws over the picture before it."""
        for artist in [*self._axes.collections, *self._axes.texts]:
            artist.remove()
        num_ranks = len(columns[0].held)
        foot = 3 * _FOOT if any(column.first for column in columns) else _FOOT
        high = _TOP + (num_ranks - 1) * _ROW + _HIGH + foot
        self._figure.set_size_inches(8.0, high)
        self._axes.set(xlim=(0, 8.0), ylim=(high, 0))
        with style():
            sheet = _Sheet(self._axes)
            for column, left, wide in zip(columns, _LEFTS, _WIDTHS, strict=True):
                sheet.column(column, left, wide)
                if column.first:
                    sheet.letter(column.first, left + wide / 2, high - 0.15, 9, "black")
            sheet.between(num_ranks, moved)
            sheet.put()
        return Picture(self._figure, alt)


class _Sheet:
    """Collects rectangles and letters, and puts them on the axes in a few strokes."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.outlines: list[Rectangle] = []
        self.before: list[Rectangle] = []
        self.filled: dict[tuple[str, str], list[Rectangle]] = {}  # by colour and hatch
        self.marks: list[tuple[Path, str]] = []

    def column(self, column: BoardColumn, left: float, wide: float) -> None:
        """A matrix on all ranks: the whole as an outline, each rank's part filled; above them what it is."""
        self.letter(column.title, left + wide / 2, 0.16, 10.5, "black")
        self.letter(column.placed, left + wide / 2, 0.42, 9, "#333333")
        for rank, held in enumerate(column.held):
            colour, top = _COLOURS[rank], _TOP + rank * _ROW
            self.outlines.append(_rectangle(_WHOLE, left, top, wide))
            part = _rectangle(held.box, left, top, wide)
            self.filled.setdefault((colour, "///" if held.is_summand else ""), []).append(part)
            if held.before:
                part = _rectangle(held.before, left, top, wide)
                self.before.append(part)
            x, y = part.get_x() + part.get_width() / 2, part.get_y() + part.get_height() / 2
            ink = "black" if held.is_summand else text_colour(colour)
            self.letter(f"{rank}{'+' * held.is_summand}", x, y, 10, ink)

    def between(self, num_ranks: int, moved: str) -> None:
        """The signs between matrices, the ranks' names, and what happens to the product."""
        self.letter(moved, 5.85, 0.42, 9, "black")
        for rank in range(num_ranks):
            middle = _TOP + rank * _ROW + _HIGH / 2
            self.letter(f"rank {rank}", 0.35, middle, 9.5, "#333333")
            for x, sign in _SIGNS:
                self.letter(sign, x, middle, 13, "#333333")

    def letter(self, text: str, x: float, y: float, size: float, colour: str) -> None:
        self.marks.append((Affine2D().translate(x, y).transform_path(_outline(text, size)), colour))

    def put(self) -> None:
        dashed = PatchCollection(self.outlines, facecolor="none", edgecolor="#999999", linestyle="--", linewidth=0.8)
        self.axes.add_collection(dashed)
        for (colour, hatch), parts in self.filled.items():
            drawn = PatchCollection(parts, **outlined(Look(colour, hatch, "")))
            self.axes.add_collection(drawn)
        if self.before:
            heavy = PatchCollection(self.before, facecolor="none", edgecolor="black", linewidth=2.4)
            self.axes.add_collection(heavy)
        paths, colours = zip(*self.marks, strict=True)
        halo = PathCollection(paths, facecolor="white", edgecolor="white", linewidth=2.2)
        self.axes.add_collection(halo)
        self.axes.add_collection(PathCollection(paths, facecolor=colours, linewidth=0))


def _rectangle(box: Box, left: float, top: float, wide: float) -> Rectangle:
    x, y, width, height = box
    return Rectangle((left + x * wide, top + y * _HIGH), width * wide, height * _HIGH)


@lru_cache(maxsize=256)
def _outline(text: str, size: float) -> Path:
    """The text's outline in inches, its middle at the origin, y downwards: far quicker to draw than a text."""
    path = TextPath((0, 0), text, size=size, prop=FontProperties(family="DejaVu Sans"))
    middle = path.get_extents().get_points().mean(axis=0)
    return Affine2D().translate(-middle[0], -middle[1]).scale(1 / 72, -1 / 72).transform_path(path)
