"""A transformer whose blocks take as long as they are told to, beside the small arithmetic that they do for real.

Weights, activations, gradients and messages are those of the small model. What a large model would compute is a wait
(``pace``): so four ranks "compute" at once on any machine.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from course_lib.base.checks import not_negative
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import pace
from course_lib.meter import Timeline
from course_lib.models import Transformer, TransformerBlock, TransformerConfig

__all__ = ["PacedTransformer"]


class PacedTransformer(Transformer):
    """``row_s``: what a block computes for one sequence in its forward pass; its backward pass takes twice as long.

    A rank that has a slice of every block is given its share of that time. ``timeline`` has every wait as a span of
    computing, "forward" or "backward".
    """

    def __init__(self, me: Rank, config: TransformerConfig, *, row_s: float) -> None:
        super().__init__(config)
        not_negative(row_s=row_s)
        self.timeline = Timeline(me.rank)
        blocks = (PacedBlock(me, config, row_s, self.timeline) for _ in range(config.num_layers))
        self.blocks = nn.ModuleList(blocks)
        self.init_weights()


class PacedBlock(TransformerBlock):
    """A block that waits behind its forward pass, and before its backward pass."""

    def __init__(self, me: Rank, config: TransformerConfig, row_s: float, timeline: Timeline) -> None:
        super().__init__(config)
        self.me, self.row_s, self.timeline = me, row_s, timeline

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        y: Tensor = _Wait.apply(super().forward(x), self.me, self.row_s * x.size(0), self.timeline)
        return y


class _Wait(torch.autograd.Function):
    """The same tensor, and the same gradient, after a while."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, me: Rank, time_s: float, timeline: Timeline) -> Tensor:
        ctx.me, ctx.time_s, ctx.timeline = me, time_s, timeline
        with timeline.span("forward"):
            pace(me, time_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        with ctx.timeline.span("backward"):
            pace(ctx.me, 2 * ctx.time_s)
        return gradients[0], None, None, None
