"""A matrix product with A in tiles: a row cut inside a column cut, each among ranks of its own.

The ranks stand in a square, here of four, and rank ``side * i + j`` holds tile (i, j) of A::

                      A0 | A1              ranks 0 and 2 have summands of Y's left columns,
    X = [X0 | X1]     -------     Y:       ranks 1 and 3 of its right ones.
                      A2 | A3

Ranks of one column of the square cut by rows: columns of X times rows of A, and an all-reduce of their columns of Y.
Ranks of one row cut by columns: they share columns of X, whose gradient they all-reduce. So each collective runs among
``side`` ranks and not among all. Source: the two-dimensional layouts of Xu et al., "GSPMD" (2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import torch
import torch.distributed as dist

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor.placements import Replicate, Shard, matmul_plan
from course_lib.parallel.tensor.redistribution import redistribute, run_matmul

__all__ = ["run_tiled_matmul", "side_of_square", "tiled_sent_bytes"]

_DOWN = matmul_plan(Shard(1), Shard(0), Replicate())  # among the ranks of a column: A is cut by rows
_ACROSS = matmul_plan(Replicate(), Shard(1), Shard(1))  # among the ranks of a row: A is cut by columns


def side_of_square(num_ranks: int) -> int:
    """2 for 4 ranks. Raises ``ValueError`` where ranks do not fill a square."""
    side = isqrt(max(num_ranks, 0))
    if num_ranks < 1 or side**2 != num_ranks:
        raise ValueError(
            f"{num_ranks} ranks do not fill a square, and tiles need a square of ranks. The nearest number is "
            f"{max(side, 1) ** 2}."
        )
    return side


def tiled_sent_bytes(shape: Sequence[int], num_ranks: int, itemsize: int = 4) -> tuple[float, float]:
    """What each rank sends forward, and backward, for X (N, K) and A (K, M); ``shape`` is (N, K, M)."""
    side = side_of_square(num_ranks)
    n, k, m = shape
    forward, _ = _DOWN.sent_bytes((n, k, m // side), side, itemsize)  # of a column's part of Y
    _, backward = _ACROSS.sent_bytes((n, k // side, m), side, itemsize)  # of a row's part of dX
    return forward, backward


def run_tiled_matmul(
    me: Rank, x: torch.Tensor, a: torch.Tensor, grad_y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """This rank's parts of Y, dX and dA, from its parts of X, A and dY.

    For tile (i, j) on a square of ``s * s`` ranks: x (N, K/s) is part i of X's columns, a (K/s, M/s) the tile, and
    grad_y (N, M/s) part j of dY's columns; so are dX (N, K/s), dA (K/s, M/s) and Y (N, M/s).
    """
    row, column = divmod(me.rank, side := side_of_square(me.world_size))
    down = [dist.new_group([side * i + j for i in range(side)]) for j in range(side)]  # all ranks make all groups
    across = [dist.new_group([side * i + j for j in range(side)]) for i in range(side)]
    y, partial, grad_a = run_matmul(me, _DOWN, x, a, grad_y, group=down[column])
    (step,) = _ACROSS.backward
    grad_x = redistribute(me, partial, step.source, step.target, group=across[row])
    dist.destroy_process_group(down[column])
    dist.destroy_process_group(across[row])
    return y, grad_x, grad_a
