"""Batches of unequal size: the loss whose gradients, averaged over ranks, are those of the whole batch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank

__all__ = ["global_mean"]


def global_mean(me: Rank, loss_sum: Tensor, num_items: int | Tensor) -> Tensor:
    """The loss to call backward on when ranks hold different numbers of items.

    loss_sum: (), the sum (not the mean) of the losses of this rank's ``num_items`` items, 0 of them allowed. Returns
    loss_sum * n / (items of all n ranks). Averaged over ranks, its gradients are those of the mean over the whole
    batch, and so are its values. ``ValueError`` for fewer than 0 items, and where no rank has any.
    """
    count = num_items.item() if isinstance(num_items, Tensor) else num_items
    at_least(0, num_items=count)
    total = torch.tensor(count, device=me.device)
    dist.all_reduce(total)
    if total == 0:
        raise ValueError("num_items is 0 on every rank; at least one rank needs an item")
    return loss_sum * (me.world_size / total.item())
