"""Computing that waits by the work that a rank really does, and a tally of it.

A block looks at its own matrices when it is called. Whole ones are a whole block's work; a rank of ``tp`` has a slice
of each and waits its share, whoever has cut them. Who computes twice as many rows waits twice as long. Backward waits
twice as long as forward. The arithmetic of the small model is done for real beside the wait.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import pace
from course_lib.meter import Timeline
from course_lib.models import Transformer, TransformerBlock, TransformerConfig

__all__ = ["StepWork", "Tally", "WorkTransformer"]

_WAYS = ("forward", "backward")


@dataclass
class StepWork:
    """What one rank computed in one step: sequences through each layer, each way, by its share of the layer."""

    rows: dict[str, dict[int, float]] = field(default_factory=lambda: {way: {} for way in _WAYS})
    waited_s: float = 0.0
    calls: list[tuple[float, str, float]] = field(default_factory=list)  # of blocks: when, way, sequences

    @property
    def computed(self) -> float:
        """Sequences through layers, both ways."""
        return sum(sum(by_layer.values()) for by_layer in self.rows.values())


class Tally:
    """What a rank has computed, step by step; the harness begins each with ``begin``."""

    def __init__(self, rank: int) -> None:
        self.timeline = Timeline(rank)
        self.begin()

    def begin(self) -> StepWork:
        """From now on it is the next step."""
        self.now = StepWork()
        return self.now

    def __deepcopy__(self, _: dict[int, Any]) -> Tally:
        """Whoever copies a block still computes on this rank."""
        return self

    def note(self, way: str, layer: int, rows: float, time_s: float) -> None:
        """So many sequences went through a layer, and the rank has waited for it until now."""
        by_layer = self.now.rows[way]
        by_layer[layer] = by_layer.get(layer, 0.0) + rows
        self.now.waited_s += time_s
        self.now.calls.append((time.perf_counter(), way, rows))


class WorkTransformer(Transformer):
    """The plain model with blocks that wait. ``row_s``: a whole block's forward for one sequence of full length."""

    def __init__(
        self,
        me: Rank,
        config: TransformerConfig,
        *,
        row_s: float,
        tally: Tally,
        weights: Mapping[str, Tensor],
    ) -> None:
        super().__init__(config)
        blocks = (WorkBlock(me, config, layer, row_s, tally) for layer in range(config.num_layers))
        self.blocks = nn.ModuleList(blocks)
        self.load_state_dict(weights)


class WorkBlock(TransformerBlock):
    """A block that waits behind its forward pass, and before its backward pass."""

    def __init__(self, me: Rank, config: TransformerConfig, layer: int, row_s: float, tally: Tally) -> None:
        super().__init__(config)
        self.me, self.layer, self.row_s, self.tally = me, layer, row_s, tally
        self.whole_numel = self.matrices_numel
        self.context_length = config.context_length

    @property
    def matrices_numel(self) -> int:
        """Numbers in its matrices on this rank now; a sharded block is whole while it computes."""
        return sum(_local(p).numel() for p in self.parameters() if p.dim() == 2)

    def work(self, x: Tensor) -> float:
        """Sequences through a whole layer that this call is worth; half of one sequence is half."""
        share = self.matrices_numel / self.whole_numel
        if share < 1:  # tokens may be cut between split regions, and are whole within them
            return x.size(0) * share
        return x.size(0) * min(1.0, x.size(1) / self.context_length)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        y: Tensor = _Wait.apply(super().forward(x), self, self.work(x))
        return y

    def wait(self, way: str, rows: float) -> None:
        """Compute for so many sequences without computing."""
        time_s = rows * self.row_s * (1 if way == "forward" else 2)
        began_s = time.monotonic()
        with self.tally.timeline.span(way):
            pace(self.me, time_s)
        self.tally.note(way, self.layer, rows, time.monotonic() - began_s)


class _Wait(torch.autograd.Function):
    """The same tensor, and the same gradient, after a while."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: WorkBlock, rows: float) -> Tensor:
        ctx.block, ctx.rows = block, rows
        block.wait("forward", rows)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        ctx.block.wait("backward", ctx.rows)
        return gradients[0], None, None


def _local(parameter: Tensor) -> Tensor:
    """What of a tensor is on this rank; a DTensor says."""
    local = getattr(parameter, "to_local", None)
    return parameter if local is None else local()
