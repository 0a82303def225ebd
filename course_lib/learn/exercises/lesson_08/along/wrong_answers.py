"""Wrong gates along positions, and right ones by forbidden or dear ways: what 08.along has to tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.cluster.process.rank_process import current_rank
from course_lib.learn.exercises.lesson_08.gates.wrong_answers import gate
from course_lib.parallel.tensor import all_gather_reduce_scatter, reduce_scatter_all_gather

__all__ = [
    "AlongByTheLibrary",
    "LastFlag",
    "along",
    "features_shared_out",
    "joined",
    "joined_by_features",
    "lost",
    "mean_shared_out",
    "not_waited_for",
    "own_among_zeros",
    "own_rows",
    "same",
    "shared_out",
    "shared_out_of_zeroed",
    "summed_among_zeros",
    "summed_and_cut",
]

Way = Callable[[Tensor], Tensor]


def same(tensor: Tensor) -> Tensor:
    return tensor.view_as(tensor)


def joined(part: Tensor) -> Tensor:
    """(P, D) -> (n P, D)."""
    return torch.cat(_every(part))


def joined_by_features(part: Tensor) -> Tensor:
    return torch.cat(_every(part), dim=1)


def features_shared_out(summand: Tensor) -> Tensor:
    """What goes back from ``joined_by_features``."""
    return shared_out(summand.T).T


def not_waited_for(part: Tensor) -> Tensor:
    parts = [torch.zeros_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous(), async_op=True)
    return torch.cat(parts)


def shared_out(partial: Tensor) -> Tensor:
    """(n P, D) -> (P, D), this rank's positions of the sum."""
    parts = [part.contiguous() for part in partial.chunk(dist.get_world_size())]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine


def mean_shared_out(partial: Tensor) -> Tensor:
    return shared_out(partial) / dist.get_world_size()


def lost(grad: Tensor) -> Any:
    """No gradient at all."""
    return None


def summed_and_cut(partial: Tensor) -> Tensor:
    """Right, and twice as dear."""
    total = partial.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return own_rows(total)


def own_rows(whole: Tensor) -> Tensor:
    return whole.chunk(dist.get_world_size())[dist.get_rank()].clone()


def own_among_zeros(part: Tensor) -> Tensor:
    whole = part.new_zeros(part.size(0) * dist.get_world_size(), *part.shape[1:])
    whole.chunk(dist.get_world_size())[dist.get_rank()].copy_(part)
    return whole


def summed_among_zeros(part: Tensor) -> Tensor:
    """Right, and twice as dear as an all-gather."""
    whole = own_among_zeros(part)
    dist.all_reduce(whole)
    return whole


def shared_out_of_zeroed(summand: Tensor) -> Tensor:
    """Right, and nothing is left of what came."""
    mine = shared_out(summand)
    summand.zero_()
    return mine


def _every(part: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return parts


def along(
    enter: tuple[Way, Way] = (joined, shared_out), leave: tuple[Way, Way] = (shared_out, joined)
) -> type[Function]:
    """A gate with these ways (forward, backward) at its entrance and at its exit."""
    return gate(enter, leave)


class LastFlag(Function):
    """Keeps the flag in the class, where the last use writes over the one before."""

    is_entrance = False

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        LastFlag.is_entrance = is_entrance
        return joined(x) if is_entrance else shared_out(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (shared_out if LastFlag.is_entrance else joined)(grad), None


class AlongByTheLibrary(Function):
    """Right, by the course's own gates."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        ctx.is_entrance = is_entrance
        return (all_gather_reduce_scatter if is_entrance else reduce_scatter_all_gather)(_me(), x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = reduce_scatter_all_gather if ctx.is_entrance else all_gather_reduce_scatter
        return back(_me(), grad), None


def _me() -> Rank:
    me = current_rank()
    assert me is not None  # gates are tried on ranks
    return me
