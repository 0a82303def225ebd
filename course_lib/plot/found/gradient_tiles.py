"""The backward product of a split matmul, dX = dY Aᵀ, rank by rank: what each holds, makes, and gets."""

from __future__ import annotations

from dataclasses import replace

from course_lib.parallel.tensor import MatmulPlan, Placement, Shard, matmul_plan
from course_lib.plot.boards.matmul_board import MatmulBoard, plan_columns
from course_lib.plot.style import Picture

__all__ = ["input_gradient_tiles"]


def input_gradient_tiles(plan: MatmulPlan, num_ranks: int) -> Picture:
    """The product that gives X its gradient, for Y = X A cut as ``plan`` says: up to four ranks, a row each.

    A tile that is hatched and has a plus sign is a summand. ``ValueError`` for more ranks than four or fewer than two.
    """
    if not 2 <= num_ranks <= 4:
        raise ValueError(f"there are {num_ranks} ranks; this picture draws two to four")
    backward = matmul_plan(plan.y, _transposed(plan.a), plan.x)
    columns, moved = plan_columns(backward, num_ranks)
    names = ("dY", "Aᵀ", "dY Aᵀ, on each rank", "dX")
    columns = [replace(column, title=name) for column, name in zip(columns, names, strict=True)]
    said = "; ".join(f"{column.title} is {column.placed}" for column in columns)
    alt = f"Backward on {num_ranks} ranks: {said}. From dY Aᵀ to dX: {moved}."
    return MatmulBoard().draw(columns, moved, alt)


def _transposed(placement: Placement) -> Placement:
    return Shard(1 - placement.dim) if isinstance(placement, Shard) else placement
