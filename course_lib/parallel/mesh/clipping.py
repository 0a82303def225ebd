"""The gradient's norm over all axes of a mesh, and the clip that every rank agrees on.

A rank holds parts of some gradients and copies of others, so its own norm says nothing. Along an axis that *cuts* a
parameter (``tp``, ``dp_shard``, ``pp``) squares add up. Along one that *copies* it (``dp_replicate``; ``tp`` for norms
and positions; both ends of a pipeline for a tied embedding) they must not be added: the sum would count it twice, the
norm come out too large, and every step too small, without an error. So each number is counted by the first rank that
holds it (``boxes.py``), and one all-reduce of one number over all ranks does the rest.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.base.checks import above_zero
from course_lib.parallel.mesh.boxes import boxes_of
from course_lib.parallel.mesh.on_mesh import OnMesh

__all__ = ["clip_gradients", "gradient_norm"]


@torch.no_grad()
def gradient_norm(model: OnMesh) -> Tensor:
    """The norm of the whole gradient, as of the plain model: 0-d, the same on every rank; every rank calls it."""
    square = torch.zeros((), dtype=torch.float64, device=model.me.device)
    for box in boxes_of(model):
        if box.counts and box.parameter.grad is not None:
            square += torch.linalg.vector_norm(box.parameter.grad, dtype=square.dtype).square()
    dist.all_reduce(square)
    return square.sqrt()


@torch.no_grad()
def clip_gradients(model: OnMesh, max_norm: float) -> Tensor:
    """Scale the gradients so that their norm is ``max_norm`` at most, as ``clip_grad_norm_`` does of a plain model.

    Returns the norm before. ``ValueError`` for a ``max_norm`` that is not above 0.
    """
    above_zero(max_norm=max_norm)
    norm = gradient_norm(model)
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(factor.to(parameter.grad.dtype))
    return norm
