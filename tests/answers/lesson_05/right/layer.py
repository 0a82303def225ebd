"""Right answers to 05.layer in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_05.right.unit import UnitEmptied, UnitOfLists, UnitPackedAway
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

__all__ = ["ANSWERS"]


class _Gather(Function):
    """As the clinic has it."""

    @staticmethod
    def forward(ctx: Any, shard: Tensor) -> Tensor:
        whole = shard.new_empty(dist.get_world_size() * shard.size(0), shard.size(1))
        dist.all_gather(list(whole.chunk(dist.get_world_size())), shard)
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        parts = list(grads[0].contiguous().chunk(dist.get_world_size()))
        rows = torch.empty_like(parts[0])
        dist.reduce_scatter(rows, parts)
        return rows / dist.get_world_size()


def reentrant(x: Tensor, shard: Tensor) -> Any:
    """The older form of ``checkpoint``, around a function of one line."""
    return checkpoint(lambda x, shard: F.linear(x, _Gather.apply(shard)), x, shard, use_reentrant=True)


def over_a_closure(x: Tensor, shard: Tensor) -> Any:
    """What is computed again finds its inputs by their names."""

    def layer() -> Tensor:
        return x @ _Gather.apply(shard).T

    return checkpoint(layer, use_reentrant=False, preserve_rng_state=False)


def fetched_when_asked_for(x: Tensor, shard: Tensor) -> Tensor:
    """Autograd saves which tensor it was, and its rows are fetched when backward asks for it."""
    whole = _Gather.apply(shard)
    place = whole.data_ptr()

    def pack(tensor: Tensor) -> Any:
        return tensor if tensor.data_ptr() != place else (tensor.shape, tensor.stride())

    def unpack(kept: Any) -> Tensor:
        return kept if isinstance(kept, Tensor) else _Gather.apply(shard).detach().as_strided(*kept)

    with saved_tensors_hooks(pack, unpack):
        return F.linear(x, whole)


_WITH_A_BACKWARD = (UnitOfLists, UnitEmptied, UnitPackedAway)  # the right answers to part 2's build are right here too

ANSWERS = (reentrant, over_a_closure, fetched_when_asked_for, *(unit.apply for unit in _WITH_A_BACKWARD))
SAME: dict[str, str] = {}
