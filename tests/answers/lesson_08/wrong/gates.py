"""08.gates: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.cluster.process.rank_process import current_rank
from course_lib.learn.exercises.lesson_08.gates.wrong_answers import Way, gate, same, summed
from course_lib.parallel.tensor import all_reduce_identity


def in_place(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor.detach())
    return tensor.clone()


def what_all_reduce_returns(tensor: Tensor) -> Any:
    return dist.all_reduce(tensor.clone())


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


EXERCISE = "08.gates"
EXAMPLES: dict[str, Any] = {
    "overwrites-its-input": gate(leave=(in_place, same)),
    "overwrites-the-gradient": gate(enter=(same, in_place)),
    "all-reduce-gives-nothing": gate(enter=(same, what_all_reduce_returns), leave=(what_all_reduce_returns, same)),
    "flag-beside-ctx": StackOfFlags,
    "backward-unwritten": UnwrittenBackward,
    "flag-not-kept": lost_flag(),
    "one-gradient-short": one_gradient(),
}


FORBIDDEN = ByTheLibrary
