"""Wrong answers to 05.clip, each wrong in one way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank

__all__ = ["clamps_values", "each_tensor_by_itself"]

Shards = Sequence[Tensor]


def of(shards: Shards) -> list[Tensor]:
    return [shard.grad for shard in shards if shard.grad is not None]


def squares_of(me: Rank, gradients: Sequence[Tensor]) -> Tensor:
    return sum((g.square().sum() for g in gradients), torch.zeros((), device=me.device))


def norm_of_all(me: Rank, shards: Shards) -> Tensor:
    squares = squares_of(me, of(shards))
    dist.all_reduce(squares)
    return squares.sqrt()


def scale(gradients: Sequence[Tensor], norm: Any, max_norm: float) -> Any:
    """In place, by the right factor for this norm."""
    factor = (max_norm / norm).clamp(max=1.0)
    for gradient in gradients:
        gradient *= factor
    return norm


# -- another norm -------------------------------------------------------------------------------------------------


def each_tensor_by_itself(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    norm = norm_of_all(me, shards)
    for shard in shards:
        of_one = norm_of_all(me, [shard])
        scale(of([shard]), of_one, max_norm)
    return norm


# -- another factor -----------------------------------------------------------------------------------------------


def clamps_values(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    norm = norm_of_all(me, shards)
    for gradient in of(shards):
        gradient.clamp_(-max_norm, max_norm)
    return norm
