"""09.piece: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from course_lib.layouts.mesh import Mesh
from course_lib.layouts.mesh_pieces import holders_of_pieces
from course_lib.learn.exercises.lesson_09.piece import Stages


def _by_the_library(
    mesh: Mesh,
    stage_layers: Stages,
    layer: int,
    shape: tuple[int, int],
    tp_dim: int | None,
    row: int,
    column: int,
) -> list[int]:
    stages = tuple(stage for stage, layers in enumerate(stage_layers) if layer in layers)
    pieces = holders_of_pieces(mesh, shape, tp_dim, stages=stages)
    return next(list(ranks) for piece, ranks in pieces.items() if piece.holds(row, column))


EXERCISE = "09.piece"
FORBIDDEN = _by_the_library
