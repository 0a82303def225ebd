"""05.unit: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

from course_lib.cluster.process.rank_process import current_rank
from course_lib.learn.exercises.lesson_05.unit.cases import ROWS
from course_lib.learn.exercises.lesson_05.unit.wrong_answers import _every, gathered, mean_rows, rows_of_sum, unit
from course_lib.parallel.tensor import all_gather_reduce_scatter


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


EXERCISE = "05.unit"
EXAMPLES: dict[str, Any] = {
    "keeps-the-whole-weight": KeepsTheWeight,
    "nothing-gathered": unit(gather=lambda shard: shard),
    "another-order": unit(gather=own_first),
    "one-part-repeated": unit(gather=one_part_repeated),
    "outputs-gathered": unit(gather=lambda shard: shard, product=outputs_gathered, gather_back=gathered),
    "side-by-side": unit(gather=side_by_side),
    "not-transposed": unit(product=lambda x, weight: x @ weight),
    "backward-unwritten": UnwrittenBackward,
    "beside-ctx": BesideCtx,
    "one-gradient": unit(hand_back=lambda grad_x, rows: grad_x),
    "gradients-swapped": unit(hand_back=lambda grad_x, rows: (rows, grad_x)),
    "whole-gradient": unit(reduce=lambda whole: whole),
    "shard-in-backward": unit(gather_back=lambda shard: shard),
    "input-gradient-transposed": unit(of_x=lambda grad, weight: grad @ weight.T),
    "input-gradient-reduced": unit(of_x=lambda grad, weight: summed(grad @ weight)),
    "input-gradient-divided": unit(of_x=lambda grad, weight: grad @ weight / len(weight) * ROWS),
    "sum-not-mean": unit(reduce=rows_of_sum),
    "own-gradient": unit(reduce=own_rows),
    "gradient-transposed": unit(of_weight=lambda grad, x: x.T @ grad),
    "no-gradient-for-the-rows": unit(reduce=lambda whole: None),
    "all-reduce-and-a-cut": unit(reduce=summed_and_cut),
    "holds-the-whole-gradient": unit(reduce=parts_of_sums),
    "overwrites-the-gradient": unit(
        of_weight=lambda grad, x: grad.div_(torch.distributed.get_world_size()).T @ x, reduce=rows_of_sum
    ),
}


FORBIDDEN = ByTheLibrary
