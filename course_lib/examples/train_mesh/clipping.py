"""The norm of a gradient that lies on all axes of a mesh, and the clip on which all ranks agree."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from .mesh import Place

__all__ = ["clip"]


@torch.no_grad()
def clip(place: Place, model: nn.Module, most: float) -> Tensor:
    """Shorten the whole model's gradient to a norm of ``most``; returns its norm before, 0-d, equal on all ranks.

    Every number must count once. Along ``shard`` and ``tp`` a DTensor knows whether it is cut, and parts must be added
    up, or copied, and they must not; along ``dp`` all are copies. Along ``pp`` no tensor is in two stages, so squares
    add up.
    """
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = get_total_norm(gradients)
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    if place.axes.pp > 1:
        square = norm.square()
        dist.all_reduce(square, group=place.mesh.get_group("pp"))
        norm = square.sqrt()
    clip_grads_with_norm_(model.parameters(), most, norm)
    return norm
