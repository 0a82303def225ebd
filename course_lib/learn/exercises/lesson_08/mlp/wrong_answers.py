"""Wrong split MLPs, and right ones by forbidden or dear ways: what 08.mlp has to tell apart."""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import (
    all_gather_split,
    all_reduce_identity,
    identity_all_reduce,
)

__all__ = ["gathers_and_adds", "keep", "not_waited_for", "split_mlp"]

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


def gathers_and_adds(me: Rank, y: Tensor) -> Tensor:
    every = all_gather_split(me, y.unsqueeze(0), dim=0)
    return every.sum(dim=0)


def not_waited_for(me: Rank, y: Tensor) -> Tensor:
    dist.all_reduce(y, async_op=True)
    return y
