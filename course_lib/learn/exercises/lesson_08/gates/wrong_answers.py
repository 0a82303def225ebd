"""Wrong gates, and right ones by forbidden ways: what 08.gates has to tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

__all__ = ["gate", "mean", "not_waited_for", "same", "summed"]


def summed(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total)
    return total


def same(tensor: Tensor) -> Tensor:
    return tensor.view_as(tensor)


def mean(tensor: Tensor) -> Tensor:
    return summed(tensor) / dist.get_world_size()


Way = Callable[[Tensor], Tensor]


def gate(enter: tuple[Way, Way] = (same, summed), leave: tuple[Way, Way] = (summed, same)) -> type[Function]:
    """A gate with these ways (forward, backward) at its entrance and at its exit."""

    class Gate(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
            ctx.ways = enter if is_entrance else leave
            return ctx.ways[0](x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return ctx.ways[1](grad), None

    return Gate


def not_waited_for(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total, async_op=True)
    return total
