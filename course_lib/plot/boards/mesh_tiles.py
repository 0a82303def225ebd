"""Who holds which piece of a matrix: the matrix in tiles with the ranks of each, and each rank with its piece, by node.

In a tile stand the ranks that hold it, those of one node together: ``0 1 | 4 5`` are four copies on two nodes. Beside
it every rank has the outline of the matrix with its own piece in it; a frame is a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from course_lib.cost.mesh.mesh_state import holders_of_parameter
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.mesh_pieces import Piece
from course_lib.plot.raster import Raster, Sheet
from course_lib.plot.style import OKABE_ITO, Look

__all__ = ["Area", "draw_holders", "holders_in_words", "look_of_piece", "ranks_text", "who_holds"]

Area = tuple[float, float, float, float]  # left, top, right, bottom: pixels of the screen
Holders = Mapping[Piece, Sequence[int]]

_COLOURS = [OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple", "blue", "vermillion", "yellow")]
_HATCHES = ("", "/", "x", "|")
_GREY, _INK = "#AAAAAA", "#333333"
_SLIM, _VECTOR = 0.5, 0.25  # width by height
_CAPTION = 22  # pixels below the matrix
_IN_A_ROW = 4  # ranks


def who_holds(config: TransformerSizes, mesh: Mesh, name: str) -> Raster:
    """The picture for one parameter of a transformer on a mesh; its text says which ranks hold what.

    ``ValueError`` as in ``cost.holders_of_parameter``.
    """
    holders = holders_of_parameter(config, mesh, name)
    sheet = Sheet(768, 300)
    sheet.text(16, 16, f"{name} on {mesh}", size=11, bold=True)
    draw_holders(sheet, mesh, holders, (16, 44, 340, 290), (372, 34, 756, 290))
    return Raster(sheet.image, f"{name} on {mesh}. {holders_in_words(mesh, holders)}")


def holders_in_words(mesh: Mesh, holders: Holders) -> str:
    """Every piece with its ranks, in a sentence."""
    pieces = [
        f"{piece} on {'ranks' if len(ranks) > 1 else 'rank'} {ranks_text(mesh, ranks)}"
        for piece, ranks in holders.items()
    ]
    if len(pieces) == 1:
        return f"In one piece: {pieces[0]}."
    return f"In {len(pieces)} pieces: {'; '.join(pieces)}."


def ranks_text(mesh: Mesh, ranks: Sequence[int]) -> str:
    """ "0 1 | 4 5": ranks of one node side by side, neighbours as "0-3"; a bar between nodes."""
    return " | ".join(_runs(list(mine)) for _, mine in groupby(ranks, key=mesh.node_of))


def look_of_piece(number: int) -> Look:
    """Colour and hatch of a piece, by its number from the first of the matrix on."""
    return Look(_COLOURS[number % len(_COLOURS)], _HATCHES[number // len(_COLOURS) % len(_HATCHES)], "")


def draw_holders(sheet: Sheet, mesh: Mesh, holders: Holders, matrix: Area, ranks: Area) -> None:
    """Paint the tiles into one area, and the ranks by node into another."""
    shape = _shape(holders)
    left, top, right, bottom = _fitted(shape, (*matrix[:3], matrix[3] - _CAPTION))
    for number, (piece, held_by) in enumerate(holders.items()):
        box = _within((left, top, right, bottom), piece, shape)
        sheet.box(*box, look_of_piece(number), ranks_text(mesh, held_by))
    _outline(sheet, (left, top, right, bottom), _INK)
    rows, columns = shape
    under = f"{rows} x {columns}: rows downwards, columns to the right" if columns > 1 else f"{rows} numbers"
    sheet.text(left, bottom + 12, under, size=9)
    _draw_ranks(sheet, mesh, holders, shape, ranks)


def _draw_ranks(sheet: Sheet, mesh: Mesh, holders: Holders, shape: tuple[int, int], area: Area) -> None:
    piece_of = {rank: number for number, ranks in enumerate(holders.values()) for rank in ranks}
    pieces = list(holders)
    for node, ranks in enumerate(_nodes(mesh)):
        cells = [_cell(mesh, rank, area) for rank in ranks]
        if mesh.ranks_per_node:
            frame = (
                min(cell[0] for cell in cells) + 2,
                min(cell[1] for cell in cells) + 1,
                max(cell[2] for cell in cells) - 2,
                max(cell[3] for cell in cells) - 1,
            )
            _outline(sheet, frame, _INK, width=2)
            sheet.text(frame[2] - 5, frame[1] + 9, f"node {node}", size=8, anchor="rm", bold=True)
        for rank, (left, top, right, bottom) in zip(ranks, cells, strict=True):
            sheet.text(left + 9, top + 10, f"rank {rank}" if mesh.num_ranks <= 10 else str(rank), size=8)
            outline = _fitted(shape, (left + 9, top + 19, right - 9, bottom - 8))
            if rank in piece_of:
                number = piece_of[rank]
                sheet.box(*_within(outline, pieces[number], shape), look_of_piece(number))
            _outline(sheet, outline, _GREY)


def _nodes(mesh: Mesh) -> list[range]:
    size = mesh.ranks_per_node or mesh.num_ranks
    return [range(first, first + size) for first in range(0, mesh.num_ranks, size)]


def _cell(mesh: Mesh, rank: int, area: Area) -> Area:
    """Where a rank is drawn: nodes side by side while there is room, each with its ranks in rows of four."""
    size = mesh.ranks_per_node or mesh.num_ranks
    wide = min(size, _IN_A_ROW)
    high = -(-size // wide)
    nodes_in_a_row = max(1, min(_IN_A_ROW // wide, mesh.num_ranks // size))
    num_columns = wide * nodes_in_a_row
    num_rows = high * -(-(mesh.num_ranks // size) // nodes_in_a_row)
    node, place = divmod(rank, size)
    column = node % nodes_in_a_row * wide + place % wide
    row = node // nodes_in_a_row * high + place // wide
    left, top, right, bottom = area
    cell_wide, cell_high = (
        (right - left) / num_columns,
        min((bottom - top) / num_rows, 0.85 * (right - left) / num_columns),
    )
    x, y = left + column * cell_wide, top + row * cell_high
    return x, y, x + cell_wide, y + cell_high


def _shape(holders: Holders) -> tuple[int, int]:
    """Of the whole matrix, which its pieces fill; a vector is one column."""
    ends = [[offset + size for offset, size in zip(piece.offsets, piece.sizes, strict=True)] for piece in holders]
    rows, *columns = (max(dim) for dim in zip(*ends, strict=True))
    return rows, (columns[0] if columns else 1)


def _fitted(shape: tuple[int, int], area: Area) -> Area:
    """As large as it can be in the area, in its proportions, but not slimmer than two to one; a vector is."""
    left, top, right, bottom = area
    ratio = min(max(shape[1] / shape[0], _SLIM), 1 / _SLIM) if shape[1] > 1 else _VECTOR
    wide = min(right - left, ratio * (bottom - top))
    high = wide / ratio
    return left, top, left + wide, top + high


def _within(area: Area, piece: Piece, shape: tuple[int, int]) -> Area:
    (row, *column), (num_rows, *num_columns) = piece.offsets, piece.sizes
    left, top, right, bottom = area
    x = (right - left) / shape[1]
    y = (bottom - top) / shape[0]
    first = column[0] if column else 0
    end = first + (num_columns[0] if num_columns else 1)
    return left + first * x, top + row * y, left + end * x, top + (row + num_rows) * y


def _outline(sheet: Sheet, area: Area, colour: str, width: int = 1) -> None:
    left, top, right, bottom = area
    for line in (
        (left, top, right, top),
        (right, top, right, bottom),
        (left, bottom, right, bottom),
        (left, top, left, bottom),
    ):
        sheet.line(*line, colour=colour, width=width)


def _runs(ranks: list[int]) -> str:
    """Three neighbours or more by the first and the last."""
    said: list[str] = []
    for _, run in groupby(enumerate(ranks), key=lambda at: at[1] - at[0]):
        mine = [rank for _, rank in run]
        said += [f"{mine[0]}-{mine[-1]}"] if len(mine) > 2 else [str(rank) for rank in mine]
    return " ".join(said)
