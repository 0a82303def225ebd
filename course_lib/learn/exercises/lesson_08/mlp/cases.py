"""What a split MLP is tried on: two sizes, and a first layer that does not learn."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from course_lib.learn.exercises.lesson_08.judging import READY_MADE
from course_lib.learn.exercises.lesson_08.split_mlp import Sizes, SplitMlp

__all__ = ["LAYERS", "SIZES", "SPLIT"]

LAYERS = (
    "course_lib.parallel.tensor.layers.ColumnParallelLinear",
    "course_lib.parallel.tensor.layers.RowParallelLinear",
)
SIZES = (
    Sizes("5 rows, 6 wide, 4 hidden units a rank", num_rows=5, width=6, num_units=4),
    Sizes("3 rows, 4 wide, 2 hidden units a rank", num_rows=3, width=4, num_units=2),
    Sizes("1 row, a first layer that is frozen", 1, 7, 3, frozenset({"w_up", "b_up"})),
)


def _unsplit(x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
    return F.linear(F.gelu(F.linear(x, w_up, b_up)), w_down, b_down)


SPLIT = SplitMlp(
    {"x": "ND", "w_up": "HD", "b_up": "H", "w_down": "DH", "b_down": "D"}, _unsplit, (*LAYERS, *READY_MADE)
)
