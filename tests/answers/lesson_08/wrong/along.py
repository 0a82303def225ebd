"""08.along: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from answers.lesson_08.wrong.gates import lost_flag, one_gradient
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.cluster.process.rank_process import current_rank
from course_lib.learn.exercises.lesson_08.along.wrong_answers import (
    along,
    joined,
    own_among_zeros,
    own_rows,
    shared_out,
)
from course_lib.parallel.tensor import all_gather_reduce_scatter, reduce_scatter_all_gather

_WAYS = (joined, shared_out), (shared_out, joined)  # of a right gate: forward and backward, entrance and exit


def summed_and_cut(partial: Tensor) -> Tensor:
    """Right, and twice as dear."""
    total = partial.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return own_rows(total)


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


EXERCISE = "08.along"
EXAMPLES: dict[str, Any] = {
    "backward-as-forward": along(enter=(joined, joined), leave=(shared_out, shared_out)),
    "all-reduce-and-a-cut": along(enter=(joined, summed_and_cut), leave=(summed_and_cut, joined)),
    "gathers-by-all-reduce": along(enter=(summed_among_zeros, shared_out), leave=(shared_out, summed_among_zeros)),
    "overwrites-the-gradient": along(enter=(joined, shared_out_of_zeroed)),
    "flag-beside-ctx": LastFlag,
    "flag-not-kept": lost_flag(*_WAYS),
    "one-gradient-short": one_gradient(*_WAYS),
}


FORBIDDEN = AlongByTheLibrary
