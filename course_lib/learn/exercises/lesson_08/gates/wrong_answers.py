"""Wrong gates, and right ones by forbidden ways: what 08.gates has to tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.cluster.process.rank_process import current_rank
from course_lib.parallel.tensor import all_reduce_identity

__all__ = [
    "ByTheLibrary",
    "StackOfFlags",
    "UnwrittenBackward",
    "gate",
    "in_place",
    "lost_flag",
    "mean",
    "not_waited_for",
    "one_gradient",
    "same",
    "summed",
    "what_all_reduce_returns",
]


def summed(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total)
    return total


def same(tensor: Tensor) -> Tensor:
    return tensor.view_as(tensor)


def mean(tensor: Tensor) -> Tensor:
    return summed(tensor) / dist.get_world_size()


def in_place(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor.detach())
    return tensor.clone()


def what_all_reduce_returns(tensor: Tensor) -> Any:
    return dist.all_reduce(tensor.clone())


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


def one_gradient(enter: tuple[Way, Way] = (same, summed), leave: tuple[Way, Way] = (summed, same)) -> type[Function]:
    """A gate that gives a gradient for x alone."""

    class OneGradient(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
            ctx.is_entrance = is_entrance
            return (enter if is_entrance else leave)[0](x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return (enter if ctx.is_entrance else leave)[1](grad)

    return OneGradient


def lost_flag(enter: tuple[Way, Way] = (same, summed), leave: tuple[Way, Way] = (summed, same)) -> type[Function]:
    """A gate that looks for the flag where nobody put it."""

    class LostFlag(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
            return (enter if is_entrance else leave)[0](x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return (enter if ctx.is_entrance else leave)[1](grad), None

    return LostFlag


def not_waited_for(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total, async_op=True)
    return total


class UnwrittenBackward(Function):
    """The natural half-way state."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        return same(x) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise NotImplementedError("Your turn")


class StackOfFlags(Function):
    """Keeps flags beside autograd, and takes the last one back first."""

    flags: list[bool] = []  # noqa: RUF012 - the mistake itself

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        StackOfFlags.flags.append(is_entrance)
        return same(x) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return summed(grad) if StackOfFlags.flags.pop() else grad, None


class ByTheLibrary(Function):
    """Right, by the course's own gates."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        ctx.is_entrance = is_entrance
        return same(x) if is_entrance else all_reduce_identity(_me(), x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return all_reduce_identity(_me(), grad) if ctx.is_entrance else grad, None


def _me() -> Rank:
    me = current_rank()
    assert me is not None  # gates are tried on ranks
    return me
