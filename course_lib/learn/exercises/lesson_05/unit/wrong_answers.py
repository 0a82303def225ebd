"""Wrong layers that gather their weight, each wrong in one way, and a right one by what is forbidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

__all__ = ["gathered", "mean_rows", "not_waited_for", "own_columns", "rows_of_sum", "unit"]


def gathered(shard: Tensor) -> Tensor:
    """(R, in) -> (n R, in)."""
    return torch.cat(_every(shard))


def _every(shard: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return parts


def not_waited_for(shard: Tensor) -> Tensor:
    parts = [torch.zeros_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard, async_op=True)
    return torch.cat(parts)


def rows_of_sum(whole: Tensor) -> Tensor:
    """(n R, in) -> (R, in), this rank's rows of the sum over ranks."""
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size())]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine


def mean_rows(whole: Tensor) -> Tensor:
    return rows_of_sum(whole) / dist.get_world_size()


def unit(
    *,
    gather: Callable[[Tensor], Tensor] = gathered,
    product: Callable[[Tensor, Tensor], Tensor] = lambda x, weight: x @ weight.T,
    gather_back: Callable[[Tensor], Tensor] | None = None,
    of_x: Callable[[Tensor, Tensor], Any] = lambda grad, weight: grad @ weight,
    of_weight: Callable[[Tensor, Tensor], Tensor] = lambda grad, x: grad.T @ x,
    reduce: Callable[[Tensor], Any] = mean_rows,
    hand_back: Callable[[Any, Any], Any] = lambda grad_x, rows: (grad_x, rows),
) -> type[Function]:
    """The layer, right but for what the arguments change. ``gather_back``: what backward gathers, if not the same."""

    class Unit(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, shard: Tensor) -> Any:
            ctx.save_for_backward(x, shard)
            return product(x, gather(shard))

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, shard = ctx.saved_tensors
            grad_x = of_x(grad, (gather_back or gather)(shard))
            return hand_back(grad_x, reduce(of_weight(grad, x)))

    return Unit


def own_columns(grad: Tensor) -> Tensor:
    return grad.chunk(dist.get_world_size(), dim=1)[dist.get_rank()]
