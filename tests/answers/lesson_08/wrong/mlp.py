"""08.mlp: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_08.mlp.wrong_answers import split_mlp
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    all_gather_split,
    all_reduce_identity,
    identity_all_reduce,
)


def gathers_rows(me: Rank, up: Tensor) -> Tensor:
    return all_gather_split(me, F.gelu(up), dim=0)


def not_transposed(me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
    hidden = F.gelu(identity_all_reduce(me, x) @ w_up + b_up)
    return all_reduce_identity(me, hidden @ w_down) + b_down


def by_the_library(me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
    """The course's own layers, with the weights that were given put in."""
    width, num_units = w_up.size(1), me.world_size * w_up.size(0)
    up = ColumnParallelLinear(me, nn.Linear(width, num_units))
    down = RowParallelLinear(me, nn.Linear(num_units, width))
    hidden = F.gelu(torch.func.functional_call(up, {"weight": w_up, "bias": b_up}, (x,)))
    return torch.func.functional_call(down, {"weight": w_down, "bias": b_down}, (hidden,))


EXERCISE = "08.mlp"
EXAMPLES: dict[str, Any] = {
    "bends-after-the-sum": split_mlp(bend=lambda me, up: F.gelu(all_reduce_identity(me, up))),
    "gathered-on-the-wrong-dim": split_mlp(bend=gathers_rows),
    "gathers-the-hidden-units": split_mlp(bend=lambda me, up: all_gather_split(me, F.gelu(up), dim=1)),
    "weights-not-transposed": not_transposed,
    "weights-through-the-gate": split_mlp(weights=identity_all_reduce),
    "one-collective-too-many": split_mlp(
        leave=lambda me, y: all_reduce_identity(me, y[:, :3]).new_zeros(()) + all_reduce_identity(me, y)
    ),
}


FORBIDDEN = by_the_library
