"""A stage whose computing is a wait: real messages and a real schedule, on as many ranks as you like.

Forward, backward for inputs and backward for weights each take the time they are given, whatever the machine has to do
besides. What the stage computes is small and exact, so that gradients can still be compared with one process.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import pace
from course_lib.schedules.stage_times import StageTimes

__all__ = ["PacedStage", "can_be_paced"]


class PacedStage(nn.Module):
    """x -> x + mean(weight), at the pace of ``times`` (seconds for a micro-batch). x: (B, ...) -> the same shape.

    Autograd skips the gradient of an input that wants none, and the wait for it: give the first stage of a pipeline an
    input that requires one. A whole backward takes as long as its two halves; ``backward_s`` of ``times`` is refused.
    """

    def __init__(self, me: Rank, times: StageTimes, *, num_weights: int = 16) -> None:
        super().__init__()
        at_least(1, num_weights=num_weights)
        can_be_paced(times)
        self.me, self.times = me, times
        self.weight = nn.Parameter(torch.ones(num_weights, device=me.device))

    def forward(self, x: Tensor) -> Tensor:
        pace(self.me, self.times.forward_s)
        x = _Paced.apply(x, self.me, self.times.input_s)
        return x + _Paced.apply(self.weight.mean(), self.me, self.times.weight_s).to(x.dtype)


def can_be_paced(times: StageTimes) -> None:
    """Raise ValueError for a time that does not follow from the others, when it is they that wait.

    A whole backward runs its two halves; a forward and a backward that overlap take as long as the longer one.
    """
    if times.backward_s is not None:
        raise ValueError(
            f"backward_s={times.backward_s} cannot be paced: a whole backward runs its two halves. They take input_s "
            f"+ weight_s = {times.input_s + times.weight_s:g} s. Leave backward_s out."
        )
    longer_s = max(times.forward_s, times.input_s + times.weight_s)
    if times.overlapped_s is not None and not math.isclose(times.overlapped_s, longer_s):
        raise ValueError(
            f"overlapped_s={times.overlapped_s} cannot be paced: a forward and a backward that wait at the same time "
            f"take as long as the longer one, {longer_s:g} s. Give that, or leave overlapped_s out."
        )


class _Paced(torch.autograd.Function):
    """The identity, with a backward pass that takes its time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, me: Rank, backward_s: float) -> Tensor:
        ctx.me, ctx.backward_s = me, backward_s
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        pace(ctx.me, ctx.backward_s)
        return gradients[0], None, None
