"""Wrong split MLPs, and right ones by forbidden or dear ways: what 08.mlp has to tell apart."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    RowParallelLinear,
    all_gather_split,
    all_reduce_identity,
    identity_all_reduce,
)

__all__ = [
    "by_the_library",
    "gathers_and_adds",
    "gathers_rows",
    "keep",
    "not_transposed",
    "not_waited_for",
    "split_mlp",
]

Step = Callable[[Rank, Tensor], Tensor]


def keep(me: Rank, tensor: Tensor) -> Tensor:
    return tensor


def split_mlp(
    *,
    enter: Step = identity_all_reduce,
    bend: Step = lambda me, up: F.gelu(up),
    leave: Step = all_reduce_identity,
    inside: Callable[[Rank, Tensor], Tensor | None] | None = None,
    weights: Step = keep,
    biased: bool = True,
) -> Callable[..., Tensor]:
    """A split MLP, right but for what the arguments change."""

    def answer(me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
        w_up, b_up, w_down = (weights(me, weight) for weight in (w_up, b_up, w_down))
        hidden = bend(me, F.linear(enter(me, x), w_up, b_up))
        if inside is not None:
            return leave(me, F.linear(hidden, w_down, inside(me, b_down)))
        return leave(me, F.linear(hidden, w_down)) + (b_down if biased else 0 * b_down)

    return answer


def gathers_rows(me: Rank, up: Tensor) -> Tensor:
    return all_gather_split(me, F.gelu(up), dim=0)


def gathers_and_adds(me: Rank, y: Tensor) -> Tensor:
    every = all_gather_split(me, y.unsqueeze(0), dim=0)
    return every.sum(dim=0)


def not_waited_for(me: Rank, y: Tensor) -> Tensor:
    dist.all_reduce(y, async_op=True)
    return y


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
