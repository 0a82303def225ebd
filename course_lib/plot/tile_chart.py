"""What ranks hold, as tiles: a row for each rank, a tile for each place, a cell for each rank's share in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from string import ascii_uppercase

from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from course_lib.meter.units import bytes_text
from course_lib.parallel.collectives.recording import Piece, RecordingFrame
from course_lib.plot.style import OKABE_ITO, OUTLINE, Picture, style, text_colour

__all__ = ["piece_text", "tiles"]

_COLOURS = [OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple", "blue", "vermillion", "yellow")]
_CELL = 0.3  # inches
_GAP = 0.12
_LEFT = 0.75  # where the tiles begin


def tiles(
    panels: Mapping[str, RecordingFrame],
    *,
    columns: int = 2,
    title: str = "",
    messages: bool = True,
    before: RecordingFrame | None = None,
    alt: str | None = None,
) -> Picture:
    """One panel for each frame, ``columns`` side by side, named by its key.

    Rank 0's pieces are A0, A1, ..., rank 1's B0, ...: in each tile every letter has a cell of its own, so that a tile
    without a white cell is a sum over all ranks. Heavy borders mark what has come since the panel before; ``before``
    is the one before the first. On the right stand the messages that each rank sent in the step, unless ``messages``
    is False. No panels: ``ValueError``.
    """
    if not panels:
        raise ValueError("there are no frames to draw; give at least one")
    frames = list(panels.values())
    n = max(len(frame.held) for frame in frames)
    side = 2 if n > 2 else 1
    tile = side * _CELL
    wide = max(n * (tile + _GAP) + _LEFT + 0.2 + 1.3 * (messages and any(frame.transfers for frame in frames)), 2.0)
    high = n * ((-(-n // side)) * _CELL + _GAP) + 0.5
    rows = -(-len(frames) // columns)
    figure = Figure(figsize=(max(wide * columns, 4.0), high * rows + 0.35 * bool(title)), facecolor="white")
    width, height = figure.get_size_inches()
    with style():
        if title:
            figure.text(0.1 / width, 1 - 0.22 / height, title, weight="bold", fontsize=11, va="center")
        for number, (name, frame) in enumerate(panels.items()):
            left, top = wide * (number % columns), 0.35 * bool(title) + high * (number // columns)
            axes = figure.add_axes((left / width, 1 - (top + high) / height, wide / width, high / height))
            axes.set(xlim=(0, wide), ylim=(high, 0))
            axes.axis("off")
            last = frames[number - 1] if number and frame.transfers else before
            _panel(axes, name, frame, last, side, messages)
    return Picture(figure, alt if alt is not None else _words(panels, title))


def piece_text(piece: Piece) -> str:
    """A piece as text: "B2", a sum "ABCD2", nothing "-"."""
    letters = "".join(ascii_uppercase[rank] for rank, _ in sorted(piece))
    numbers = sorted({number for _, number in piece})
    return f"{letters}{','.join(map(str, numbers))}" if piece else "-"


def _panel(
    axes: Axes, name: str, frame: RecordingFrame, before: RecordingFrame | None, side: int, messages: bool
) -> None:
    """One frame, in inches from its upper left corner."""
    n = len(frame.held)
    tile_wide, tile_high = side * _CELL, -(-n // side) * _CELL
    axes.text(0.1, 0.2, name, fontsize=10, weight="bold", va="center")
    cells, looks, marks, borders, widths = [], [], [], [], []
    for rank, held in enumerate(frame.held):
        top = 0.42 + rank * (tile_high + _GAP)
        axes.text(0.1, top + tile_high / 2, f"rank {rank}", fontsize=9, va="center")
        for place, piece in enumerate(held):
            left = _LEFT + place * (tile_wide + _GAP)
            for origin, number in piece:
                x, y = left + origin % side * _CELL, top + origin // side * _CELL
                cells.append(Rectangle((x, y), _CELL, _CELL))
                looks.append(_COLOURS[origin])
                marks.append(_mark(f"{ascii_uppercase[origin]}{number}", x + _CELL / 2, y + _CELL / 2))
            has_come = before is not None and piece and before.held[rank][place] != piece
            borders.append(Rectangle((left, top), tile_wide, tile_high))
            widths.append(2.4 if has_come else 0.8)
        if messages:
            sent = [f"→ {m.receiver}: {bytes_text(m.size_bytes)}" for m in frame.transfers if m.sender == rank]
            right = _LEFT + n * (tile_wide + _GAP)
            axes.text(right, top + tile_high / 2, "\n".join(sent), fontsize=9, va="center")
    axes.add_collection(PatchCollection(cells, facecolor=looks, edgecolor=OUTLINE, linewidth=0.5))
    axes.add_collection(PathCollection(marks, facecolor=[text_colour(look) for look in looks], linewidth=0))
    axes.add_collection(PatchCollection(borders, facecolor="none", edgecolor="black", linewidth=widths))


def _mark(text: str, x: float, y: float) -> Path:
    """The outline of a short text around a point: all of them are drawn at once, much faster than as texts."""
    return Affine2D().translate(x, y).transform_path(_outline(text))


@lru_cache(maxsize=128)
def _outline(text: str) -> Path:
    """The text's outline in inches, its middle at the origin, y downwards."""
    path = TextPath((0, 0), text, size=8.5, prop=FontProperties(family="DejaVu Sans"))
    middle = path.get_extents().get_points().mean(axis=0)
    return Affine2D().translate(-middle[0], -middle[1]).scale(1 / 72, -1 / 72).transform_path(path)


def _words(panels: Mapping[str, RecordingFrame], title: str) -> str:
    parts = []
    for name, frame in panels.items():
        rows = [
            f"rank {rank} holds {' '.join(map(piece_text, held)) if any(held) else 'nothing'}"
            for rank, held in enumerate(frame.held)
        ]
        parts.append(f"{name}: {', '.join(rows)}.")
    return (f"{title}. " if title else "") + " ".join(parts)
