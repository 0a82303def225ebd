"""Wrong layers that gather their weight, each wrong in one way, and a right one by what is forbidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

from course_lib.cluster.process.rank_process import current_rank
from course_lib.parallel.tensor import all_gather_reduce_scatter

__all__ = [
    "BesideCtx",
    "ByTheLibrary",
    "KeepsTheWeight",
    "UnwrittenBackward",
    "gathered",
    "mean_rows",
    "not_waited_for",
    "one_part_repeated",
    "outputs_gathered",
    "own_columns",
    "own_first",
    "own_rows",
    "parts_of_sums",
    "rows_of_sum",
    "side_by_side",
    "summed",
    "summed_and_cut",
    "unit",
]


def gathered(shard: Tensor) -> Tensor:
    """(R, in) -> (n R, in)."""
    return torch.cat(_every(shard))


def _every(shard: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard)
    return parts


def side_by_side(shard: Tensor) -> Tensor:
    return torch.cat(_every(shard), dim=1)


def own_first(shard: Tensor) -> Tensor:
    parts, rank = _every(shard), dist.get_rank()
    return torch.cat([*parts[rank:], *parts[:rank]])


def one_part_repeated(shard: Tensor) -> Tensor:
    """A list that names one tensor n times: what came last stands in all of its places."""
    parts = [torch.empty_like(shard)] * dist.get_world_size()
    dist.all_gather(parts, shard)
    return torch.cat(parts)


def outputs_gathered(x: Tensor, shard: Tensor) -> Tensor:
    """Products are sent in place of rows, each of another rank's batch."""
    return torch.cat(_every(x @ shard.T), dim=1)


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


def own_rows(whole: Tensor) -> Tensor:
    return whole.chunk(dist.get_world_size())[dist.get_rank()].clone()


def summed_and_cut(whole: Tensor) -> Tensor:
    """Right, and twice as dear."""
    total = whole.clone()
    dist.all_reduce(total)
    return own_rows(total) / dist.get_world_size()


def parts_of_sums(whole: Tensor) -> Tensor:
    """A reduce for each rank, in place: what is returned is a view of the whole gradient."""
    parts = whole.chunk(dist.get_world_size())
    for rank, part in enumerate(parts):
        dist.reduce(part, dst=rank)
    return parts[dist.get_rank()].div_(dist.get_world_size())


def summed(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total)
    return total


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


class KeepsTheWeight(Function):
    """All numbers are right, and nothing has been gained."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        weight = gathered(shard)
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return grad @ weight, mean_rows(grad.T @ x)


class BesideCtx(Function):
    """Keeps what backward needs on the class, where the next use finds the same place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        BesideCtx.x, BesideCtx.shard = x, shard  # type: ignore[attr-defined]
        return x @ gathered(shard).T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, shard = BesideCtx.x, BesideCtx.shard  # type: ignore[attr-defined]
        return grad @ gathered(shard), mean_rows(grad.T @ x)


class UnwrittenBackward(Function):
    """The natural half-way state."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shard: Tensor) -> Tensor:
        ctx.save_for_backward(x, shard)
        return x @ gathered(shard).T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise NotImplementedError("Your turn")


class ByTheLibrary:
    """Right, by a gather of the course's own whose backward is written already."""

    @staticmethod
    def apply(x: Tensor, shard: Tensor) -> Any:
        def layer(x: Tensor, shard: Tensor) -> Tensor:
            me = current_rank()
            assert me is not None  # layers are tried on ranks
            scaled = shard.detach() + (shard - shard.detach()) / me.world_size  # of its gradient, the mean
            return x @ all_gather_reduce_scatter(me, scaled).T

        return checkpoint(layer, x, shard, use_reentrant=False)
