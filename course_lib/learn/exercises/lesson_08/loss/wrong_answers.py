"""Wrong losses of split logits, and right ones by forbidden or dear ways: what 08.loss has to tell apart."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import all_reduce_identity

__all__ = ["not_waited_largest", "own_largest", "own_target", "split_loss", "with_gradient"]


def shared_largest(me: Rank, logits: Tensor) -> Tensor:
    """Each position's largest logit, over all ranks."""
    top = logits.detach().amax(dim=1)
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    return top


def with_gradient(me: Rank, logits: Tensor) -> Tensor:
    """As ``shared_largest``, without ``detach``."""
    top = logits.amax(dim=1)
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    return top


def own_largest(me: Rank, logits: Tensor) -> Tensor:
    return logits.detach().amax(dim=1)


def not_waited_largest(me: Rank, logits: Tensor) -> Tensor:
    top = logits.detach().amax(dim=1)
    dist.all_reduce(top, op=dist.ReduceOp.MAX, async_op=True)
    return top


def own_target(me: Rank, shifted: Tensor, targets: Tensor, *, first: int | None = None, masked: bool = True) -> Tensor:
    """The target's logit where this rank has it, zero elsewhere; or what two usual slips make of it."""
    size = shifted.size(1)
    place = targets - (me.rank * size if first is None else first)
    is_here = (place >= 0) & (place < size)
    found = shifted.gather(1, place.clamp(0, size - 1)[:, None])[:, 0]
    return torch.where(is_here, found, 0.0) if masked else found


def split_loss(
    *,
    largest: Callable[[Rank, Tensor], Tensor] = shared_largest,
    target: Callable[..., Tensor] = own_target,
    total: Callable[[Rank, Tensor], Tensor] = all_reduce_identity,
    shared_exponentials: bool = True,
    shared_target: bool = True,
    shifted_target: bool = True,
    early_log: bool = False,
    mean: bool = True,
) -> Callable[..., Tensor]:
    """A split loss, right but for what the arguments change."""

    def answer(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
        shifted = logits - largest(me, logits)[:, None]
        own_sum = shifted.exp().sum(dim=1)
        if early_log:
            own_sum = own_sum.log()
        found = target(me, shifted if shifted_target else logits, targets)
        sums = total(me, torch.stack([own_sum, found]))
        log_sum = sums[0] if shared_exponentials else own_sum
        losses = (log_sum if early_log else log_sum.log()) - (sums[1] if shared_target else found)
        return losses.mean() if mean else losses.sum()

    return answer
