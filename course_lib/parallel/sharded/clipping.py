"""The gradient's norm over all shards, and the clip that every rank agrees on.

A rank that clipped by the norm of its own rows would scale them by a factor of its own: the whole gradient would
change its direction, and no error would tell. Squares add up, so one number a rank would do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.base.checks import above_zero
from course_lib.parallel.collectives.members import Members

if TYPE_CHECKING:
    from course_lib.parallel.sharded.fully_sharded import FullySharded

__all__ = ["clip_gradients", "clip_shards"]


def clip_gradients(model: FullySharded, max_norm: float) -> Tensor:
    """Scale the gradients of a sharded model so that their norm is ``max_norm`` at most, as ``clip_grad_norm_`` does.

    Returns the norm before, 0-d, the same on every rank. ``ValueError`` for a ``max_norm`` that is not above 0.
    """
    return clip_shards(model.parameters(), max_norm, model.members)


@torch.no_grad()
def clip_shards(shards: Iterable[Tensor], max_norm: float, members: Members) -> Tensor:
    """The same for any tensors of which the ``members`` hold the gradients' rows, each row on one rank.

    A rank that has no gradients takes part like the others. ``ValueError`` where no rank has one.
    """
    above_zero(max_norm=max_norm)
    shards = list(shards)
    gradients = [shard.grad for shard in shards if shard.grad is not None]
    like = shards[0] if shards else torch.zeros(())
    total = torch.zeros(2, dtype=torch.float64, device=like.device)  # of squares, and of ranks that have some
    if gradients:
        total[0] = torch.stack([_sum_of_squares(gradient) for gradient in gradients]).sum()
        total[1] = 1
    dist.all_reduce(total, group=members.group)
    if not gradients and not total[1]:
        raise ValueError("there are no gradients to clip: call it between backward() and step()")
    norm = total[0].sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)  # without asking whether it is 1, which would make the host wait for a GPU
    return norm.to(like.dtype.to_real())


def _sum_of_squares(gradient: Tensor) -> Tensor:
    """In 32 bits at least: the square of 300 is infinite in float16."""
    numbers = torch.view_as_real(gradient) if gradient.is_complex() else gradient
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32)).square().sum()
