"""The ranks of a mesh at their places, each with a word on what it has: read off a run, or off the mesh."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.base.checks import at_most
from course_lib.layouts.mesh import Mesh
from course_lib.plot.style import OKABE_ITO, Look, Picture, canvas, outlined

__all__ = ["mesh_places"]

MOST_AXES, MOST_PLACES = 3, 8
_COLOURS = [OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple", "yellow")]
_WIDE, _HIGH, _GAP = 1.55, 0.62, 0.12  # of a rank's box, and between two, in inches
_LEFT, _ABOVE, _APART = 1.05, 0.55, 0.35  # room for the names of places, and between two panels


def mesh_places(mesh: Mesh, words: Mapping[int, str] | None = None, *, title: str = "") -> Picture:
    """A box for each rank at its place: the last axis goes to the right, the one before it down.

    A third axis, the outermost, has a panel for each of its places, side by side. ``words`` says for a rank what is
    written below its number, such as "rows 0 to 63"; ranks with equal words have one colour. ``ValueError`` for a mesh
    of more than three axes or of more than eight places along one, and for the word of a rank that is not there.
    """
    at_most(MOST_AXES, axes=len(mesh.axes))
    at_most(MOST_PLACES, **dict(zip(mesh.axes, mesh.shape, strict=True)))
    words = dict(words or {})
    for rank in words:
        mesh.coordinates(rank)
    panels, rows, columns = (1,) * (MOST_AXES - len(mesh.shape)) + mesh.shape
    wide = _LEFT + columns * (_WIDE + _GAP)
    size = {"width": panels * (wide + _APART), "height": _ABOVE + rows * (_HIGH + _GAP) + 0.35 * bool(title)}
    colours = _colours(words)
    with canvas(**size, title=title) as (figure, axes):
        axes.set(xlim=(0, panels * (wide + _APART)), ylim=(_ABOVE + rows * (_HIGH + _GAP), 0))
        axes.axis("off")
        for panel in range(panels):
            _names(axes, mesh, panel, panel * (wide + _APART), (rows, columns))
        for rank in range(mesh.num_ranks):
            panel, row, column = _spot(mesh, rank)
            left = panel * (wide + _APART) + _LEFT + column * (_WIDE + _GAP)
            word = words.get(rank, "")
            _box(
                axes, left, _ABOVE + row * (_HIGH + _GAP), f"rank {rank}\n{word}".strip(), colours.get(word, "#FFFFFF")
            )
    return Picture(figure, _in_words(mesh, words, title))


def _spot(mesh: Mesh, rank: int) -> tuple[int, int, int]:
    """(panel, row, column) of a rank."""
    panel, row, column = (0,) * (MOST_AXES - len(mesh.axes)) + tuple(mesh.coordinates(rank).values())
    return panel, row, column


def _colours(words: Mapping[int, str]) -> dict[str, str]:
    return dict(zip(dict.fromkeys(words.values()), itertools.cycle(_COLOURS)))


def _names(axes: Axes, mesh: Mesh, panel: int, left: float, size: tuple[int, int]) -> None:
    """The places of a panel: along the last axis above, along the one before on the left, and its own on top."""
    *outer, last = mesh.axes
    rows, columns = size
    for column in range(columns):
        x = left + _LEFT + column * (_WIDE + _GAP) + _WIDE / 2
        axes.text(x, 0.4, f"{last} {column}", ha="center", va="center", fontsize=9)
    for row in range(rows if outer else 0):
        y = _ABOVE + row * (_HIGH + _GAP) + _HIGH / 2
        axes.text(left + _LEFT - 0.1, y, f"{outer[-1]} {row}", ha="right", va="center", fontsize=9)
    if len(outer) > 1:
        axes.text(left + _LEFT, 0.12, f"{outer[0]} {panel}", va="center", fontsize=10, weight="bold")


def _box(axes: Axes, left: float, top: float, text: str, colour: str) -> None:
    axes.add_patch(Rectangle((left, top), _WIDE, _HIGH, **outlined(Look(colour, "", ""))))
    axes.text(left + _WIDE / 2, top + _HIGH / 2, text, ha="center", va="center", fontsize=9)


def _in_words(mesh: Mesh, words: Mapping[int, str], title: str) -> str:
    said = []
    for rank in range(mesh.num_ranks):
        place = ", ".join(f"{axis} {number}" for axis, number in mesh.coordinates(rank).items())
        said.append(f"rank {rank} at {place}" + (f": {words[rank]}" if words.get(rank) else ""))
    return f"{title or str(mesh)}. " + "; ".join(said) + "."
