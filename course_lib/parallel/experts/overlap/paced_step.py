"""A step of a model that takes as long as it is told, forward and backward, and notes when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import check_time, pace

if TYPE_CHECKING:
    from course_lib.meter.clocks.timeline import Timeline

__all__ = ["PacedStep"]


class PacedStep(nn.Module):
    """Hands x on, after ``time_s`` seconds; its gradient after twice as many, as backward has two products for one.

    ``timeline`` gets a span for each, named forward or backward. ``ValueError`` for a time that is no number of
    seconds.
    """

    def __init__(self, me: Rank, time_s: float, timeline: Timeline) -> None:
        super().__init__()
        check_time(time_s)
        self.me, self.time_s, self.timeline = me, time_s, timeline

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)."""
        return _Paced.apply(x, self)


class _Paced(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, step: PacedStep) -> Tensor:
        ctx.step = step
        with step.timeline.span("forward"):
            pace(step.me, step.time_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        step = ctx.step
        with step.timeline.span("backward"):
            pace(step.me, 2 * step.time_s)
        return grads[0], None
