"""The three moves of data parallelism in one process: broadcast, scatter, gather; each knows its own way back.

Autograd calls a move's ``backward`` when the backward pass comes to it, and that is another of the moves: what was
copied forward is added up, what was cut is joined, what was joined is cut. Replica 0 sits with the original and
shares its memory. Every other replica gets copies, even where devices repeat, so that four replicas on one CPU are
as separate as four on four GPUs. It follows ``torch/nn/parallel/_functions.py`` of PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

__all__ = ["Broadcast", "Gather", "Scatter", "send_to"]


class Broadcast(torch.autograd.Function):
    """n tensors -> n tensors on each device. Backward: the gradients of all copies, added up where the original is."""

    @staticmethod
    def forward(ctx: Any, devices: list[torch.device], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)  # a weight that nobody used keeps the gradient None
        ctx.homes = [tensor.device for tensor in tensors]
        copies = [[send_to(to, tensor, replica) for tensor in tensors] for replica, to in enumerate(devices)]
        frozen = [i for i, tensor in enumerate(tensors) if not tensor.requires_grad]
        ctx.mark_non_differentiable(*(row[i] for row in copies for i in frozen))
        return tuple(chain.from_iterable(copies))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        n = len(ctx.homes)
        of_each = [grads[i::n] for i in range(n)]  # the gradients of tensor i, replica by replica
        return None, *map(_added_up, ctx.homes, of_each)


class Scatter(torch.autograd.Function):
    """(B, ...) -> parts along ``dim``, one on each device. Backward: the gradients, gathered."""

    @staticmethod
    def forward(ctx: Any, devices: list[torch.device], dim: int, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.home, ctx.dim = tensor.device, dim
        parts = tensor.chunk(len(devices), dim)  # may be fewer than there are devices
        pairs = zip(parts, devices[: len(parts)], strict=True)
        return tuple(send_to(device, part, replica) for replica, (part, device) in enumerate(pairs))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, Gather.apply(ctx.home, ctx.dim, *grads)


class Gather(torch.autograd.Function):
    """Tensors on several devices -> one, joined along ``dim``. Backward: the gradient, cut up and sent back."""

    @staticmethod
    def forward(ctx: Any, device: torch.device, dim: int, *tensors: Tensor) -> Tensor:
        ctx.homes, ctx.dim = [tensor.device for tensor in tensors], dim
        ctx.sizes = [tensor.shape[dim] for tensor in tensors]
        return torch.cat([send_to(device, tensor, replica) for replica, tensor in enumerate(tensors)], dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pieces = zip(grad.split(ctx.sizes, ctx.dim), ctx.homes, strict=True)
        return None, None, *(send_to(home, piece, replica) for replica, (piece, home) in enumerate(pieces))


def send_to(device: torch.device, tensor: Tensor, replica: int) -> Tensor:
    """What is for replica 0, or comes from it, stays where it is if it can; all else is copied."""
    return tensor.to(device, copy=replica > 0)


def _added_up(home: torch.device, grads: Sequence[Tensor | None]) -> Tensor | None:
    """The sum of what came, at ``home``; None where nothing came."""
    arrived = [send_to(home, grad, replica) for replica, grad in enumerate(grads) if grad is not None]
    return sum(arrived[1:], start=arrived[0]) if arrived else None
