"""Right answers to 09.piece in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from course_lib.layouts.mesh import Mesh
from course_lib.parallel.collectives.members import split_sizes
from course_lib.parallel.sharded.row_sharding import Rows

__all__ = ["ALL", "SAME"]

Stages = list[list[int]]


def by_places(
    mesh: Mesh, stages: Stages, layer: int, shape: tuple[int, int], tp_dim: int | None, row: int, column: int
) -> list[int]:
    """The places that have it first, then their ranks."""
    has = {"pp": next(stage for stage, layers in enumerate(stages) if layer in layers)}
    at, num_rows = row, shape[0]
    if tp_dim is not None:
        within, place = (row, column)[tp_dim], 0
        sizes = split_sizes(shape[tp_dim], mesh.size("tp"))
        while within >= sizes[place]:
            within -= sizes[place]
            place += 1
        has["tp"] = place
        if tp_dim == 0:
            at, num_rows = within, sizes[place]
    has["dp_shard"] = at // -(-num_rows // mesh.size("dp_shard"))
    return [
        rank
        for rank in range(mesh.num_ranks)
        if all(has.get(axis, place) == place for axis, place in mesh.coordinates(rank).items())
    ]


def by_a_table(
    mesh: Mesh, stages: Stages, layer: int, shape: tuple[int, int], tp_dim: int | None, row: int, column: int
) -> Iterator[int]:
    """A matrix with one mark, really cut: whoever has the mark. Yields."""
    marked = torch.zeros(shape)
    marked[row, column] = 1
    for rank in range(mesh.num_ranks):
        here, piece = mesh.coordinates(rank), marked
        if tp_dim is not None:
            piece = piece.split(split_sizes(shape[tp_dim], mesh.size("tp")), tp_dim)[here.get("tp", 0)]
        parts = piece.split(max(1, -(-len(piece) // mesh.size("dp_shard"))))
        shard = here.get("dp_shard", 0)
        if shard < len(parts) and parts[shard].any() and layer in stages[here.get("pp", 0)]:
            yield rank


def by_rows(
    mesh: Mesh, stages: Stages, layer: int, shape: tuple[int, int], tp_dim: int | None, row: int, column: int
) -> tuple[int, ...]:
    """Boxes by the course's ``Rows``; a tuple."""
    found: tuple[int, ...] = ()
    for rank in range(mesh.num_ranks):
        here = mesh.coordinates(rank)
        begin, size = [0, 0], list(shape)
        if tp_dim is not None:
            sizes = split_sizes(shape[tp_dim], mesh.size("tp"))
            place = here.get("tp", 0)
            begin[tp_dim], size[tp_dim] = sum(sizes[:place]), sizes[place]
        first, end = Rows((size[0],), mesh.size("dp_shard")).range_of(here.get("dp_shard", 0))
        has_row = begin[0] + first <= row < begin[0] + end
        has_column = begin[1] <= column < begin[1] + size[1]
        if has_row and has_column and layer in stages[here.get("pp", 0)]:
            found += (rank,)
    return found


def by_elimination(
    mesh: Mesh, stages: Stages, layer: int, shape: tuple[int, int], tp_dim: int | None, row: int, column: int
) -> set[int]:
    """All ranks, and each axis takes some away; a set."""
    left = set(range(mesh.num_ranks))

    def keep(axis: str, place: int) -> None:
        if axis in mesh.axes:
            left.intersection_update(rank for rank in left if mesh.coordinates(rank)[axis] == place)

    for stage, layers in enumerate(stages):
        if layer in layers:
            keep("pp", stage)
    rows = list(range(shape[0]))
    if tp_dim is not None:
        owners = [place for place, n in enumerate(split_sizes(shape[tp_dim], mesh.size("tp"))) for _ in range(n)]
        owner = owners[(row, column)[tp_dim]]
        keep("tp", owner)
        if tp_dim == 0:
            rows = [number for number in rows if owners[number] == owner]
    each = (len(rows) + mesh.size("dp_shard") - 1) // mesh.size("dp_shard")
    keep("dp_shard", rows.index(row) // each)
    return left


def as_tensor(*args: Any) -> torch.Tensor:
    return torch.tensor(by_places(*args))


ALL = (by_places, by_a_table, by_rows, by_elimination, as_tensor)
_NEITHER = "Neither line reads what the other makes."
SAME: dict[str, str] = {
    "3: `here = mesh.coordinates(rank)` after `begin, size = ([0, 0], list(shape))`": _NEITHER,
    "8: `row_here, column_here = (row - begin[0], column - begin[1])` after `per_shard = -(-size[0] // "
    "mesh.size('dp_shard'))`": _NEITHER,
    "9: `per_shard = -(-size[0] // mesh.size('dp_shard'))` after `on_stage = layer in stage_layers[here.get('pp', "
    "0)]`": _NEITHER,
    "10: `on_stage = layer in stage_layers[here.get('pp', 0)]` after `in_slice = 0 <= row_here < size[0] and 0 <= "
    "column_here < size[1]`": _NEITHER,
    "6: `0` -> `-1`": "Without tp there is one slice, which is the first and the last.",
    "10: `0` -> `-1`": "Without pp there is one stage, which is the first and the last.",
}
