"""Batches of unequal size: the loss whose gradients, averaged over ranks, are those of the whole batch.

``backward_per_token`` is for tokens of which some do not count, as in torchtitan (``global_valid_tokens`` in its
``trainer.py``) and in Megatron (``--calculate-per-token-loss``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank

__all__ = ["IGNORED", "backward_per_token", "global_mean"]

IGNORED = -100  # PyTorch's ``ignore_index``: a target that does not count in the loss


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


def backward_per_token(me: Rank, ddp: Any, micro_batches: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Forward and backward of one step; afterwards ``.grad`` is the gradient of the mean loss per valid token.

    ddp: a ``DistributedDataParallel``, PyTorch's or the course's, whose gradients are cleared. micro_batches: one or
    more pairs of tokens (B, T) and targets (B, T), of any B and T, another number of them on each rank if need be. A
    target of -100 does not count. Where none counts on any rank, gradients and loss are 0.

    Sends a count of 8 bytes, and the gradients once. Returns this rank's part of the loss, () and without a graph: the
    parts of all ranks add up to the loss of the batch. ``ValueError`` without a micro-batch, or where the model's
    scores (B, T, V) do not fit the targets.
    """
    if not micro_batches:
        raise ValueError(
            f"no micro-batches on rank {me.rank}: a rank without one would not join DDP's all-reduce. Give at least "
            f"one; all its targets may be {IGNORED}."
        )
    num_valid = torch.stack([(targets != IGNORED).sum() for _, targets in micro_batches]).sum()
    dist.all_reduce(num_valid)
    num_valid.clamp_(min=1)
    part = torch.zeros((), device=num_valid.device)
    for index, (tokens, targets) in enumerate(micro_batches):
        with nullcontext() if index == len(micro_batches) - 1 else ddp.no_sync():
            loss = _summed(ddp(tokens), targets) / num_valid
            (loss * me.world_size).backward()  # DDP divides by it
        part = part + loss.detach()
    return part


def _summed(scores: Tensor, targets: Tensor) -> Tensor:
    """The sum of the losses of all valid tokens, in float32 or better."""
    if scores.shape[:-1] != targets.shape:
        raise ValueError(
            f"scores of shape {tuple(scores.shape)} for targets of shape {tuple(targets.shape)}: one row of scores for "
            f"each target is needed, which is {(*targets.shape, scores.shape[-1])}."
        )
    scores = scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction="sum")
