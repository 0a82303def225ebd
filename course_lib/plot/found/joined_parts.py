"""Two parts of a product, put together in each way that their shapes allow, beside the product itself."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor, cat, equal

from course_lib.plot.style import OKABE_ITO, Look, Picture, canvas, outlined, text_colour

__all__ = ["ways_to_join"]

_CELL = (0.32, 0.3)  # of a number, in inches: wide, high
_LOOKS = {
    0: Look(OKABE_ITO["sky blue"], "", ""),
    1: Look(OKABE_ITO["orange"], "//", ""),
    2: Look("#FFFFFF", "", ""),
}  # of rank 0, of rank 1, of both or of neither
_LEFT, _GAP, _HEAD = 0.15, 0.55, 0.62


def ways_to_join(first: Tensor, second: Tensor, whole: Tensor, *, title: str = "") -> Picture:
    """``first`` and ``second``, of ranks 0 and 1, side by side, one above the other, and added up; then ``whole``.

    All (R, C), and ``first`` and ``second`` of one shape. Above each way stands whether it is ``whole``.
    ``ValueError`` for other shapes.
    """
    if first.ndim != 2 or whole.ndim != 2 or first.shape != second.shape:
        raise ValueError(
            f"the matrices have shapes {tuple(first.shape)} and {tuple(second.shape)}; give two of the same shape"
        )
    rows, columns = first.shape
    owners = {
        "side by side": [[0] * columns + [1] * columns] * rows,
        "one above the other": [[0] * columns] * rows + [[1] * columns] * rows,
        "added up": [[2] * columns] * rows,
    }
    ways = {
        "side by side": cat([first, second], dim=1),
        "one above the other": cat([first, second]),
        "added up": first + second,
    }
    wide, high = sum(way.size(1) for way in ways.values()) + whole.size(1), max(2 * rows, whole.size(0))
    width, height = 2 * _LEFT + wide * _CELL[0] + 3 * _GAP, _HEAD + high * _CELL[1] + 0.1
    is_whole = {name: way.shape == whole.shape and equal(way, whole) for name, way in ways.items()}
    with canvas(width=width, height=height + 0.35 * bool(title), title=title) as (figure, axes):
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        left = _LEFT
        for name, way in ways.items():
            left = _grid(axes, left, (name, "this is X A" if is_whole[name] else "not X A"), way, owners[name])
        neither = [[2] * whole.size(1)] * whole.size(0)
        _grid(axes, left, ("X A", "on one device"), whole, neither)
    said = [f"{name}, {way.tolist()}: {'this is' if is_whole[name] else 'not'} X A" for name, way in ways.items()]
    return Picture(figure, f"{title or 'Two parts'}. {'; '.join(said)}. X A is {whole.tolist()}.")


def _grid(axes: Axes, left: float, names: tuple[str, str], matrix: Tensor, owners: list[list[int]]) -> float:
    """A matrix with a box for each number; returned is where the next one begins."""
    wide, high = _CELL
    middle = left + matrix.size(1) * wide / 2
    axes.text(middle, 0.16, names[0], ha="center", va="center", fontsize=9.5, weight="bold")
    axes.text(middle, 0.42, names[1], ha="center", va="center", fontsize=9)
    for row, numbers in enumerate(matrix.tolist()):
        for column, number in enumerate(numbers):
            look = _LOOKS[owners[row][column]]
            x, y = left + column * wide, _HEAD + row * high
            axes.add_patch(Rectangle((x, y), wide, high, **outlined(look)))
            paper = {"boxstyle": "round,pad=0.1", "facecolor": look.colour, "edgecolor": "none"}
            ink = {"color": text_colour(look.colour), "fontsize": 9, "bbox": paper}
            axes.text(x + wide / 2, y + high / 2, f"{number:g}", ha="center", va="center", **ink)
    return left + matrix.size(1) * wide + _GAP
