"""11.planner: usual mistakes about bytes; each stands before a whole planner and changes a formula of it."""

from __future__ import annotations

from typing import Any

from course_lib.plan.inputs.layout import Layout

__all__ = [
    "AllInFlight",
    "AllLayers",
    "AsTheFirstStage",
    "CopiesShare",
    "GradientsFirst",
    "InsidesOfAll",
    "KeepsAll",
    "LogitsEverywhere",
    "LogitsInTwoBytes",
    "MoreThanThereAre",
    "NeverShares",
    "NoInside",
    "NoMaster",
    "NoRotation",
    "NormsCut",
    "OneInFlight",
    "OneTable",
    "OutsideCut",
    "PlainMlps",
    "TablesEverywhere",
    "TablesWhole",
]


class NoMaster:
    optimizer_bytes = 8


class GradientsFirst:
    """Sharding 1 shares gradients, and 2 the optimizer's states too."""

    def shards(self: Any, layout: Layout, stage: int) -> int:
        return layout.dp if layout.sharding >= {1: 2, 2: 1, 3: 3}[stage] else 1


class CopiesShare:
    """Whatever sharding says."""

    def shards(self: Any, layout: Layout, stage: int) -> int:
        return layout.dp


class NeverShares:
    def shards(self: Any, layout: Layout, stage: int) -> int:
        return 1


class AllLayers:
    def numbers(self: Any, layout: Layout, stage: int) -> float:
        job = self.job
        layer = self.matrices / layout.tp + 2 * job.hidden
        return job.layers * layer + self.tables(layout, stage) * job.vocab * job.hidden / layout.tp


class NormsCut:
    def numbers(self: Any, layout: Layout, stage: int) -> float:
        job = self.job
        layer = (self.matrices + 2 * job.hidden) / layout.tp
        return job.layers // layout.pp * layer + self.tables(layout, stage) * job.vocab * job.hidden / layout.tp


class TablesWhole:
    """``tp`` cuts no table."""

    def numbers(self: Any, layout: Layout, stage: int) -> float:
        job = self.job
        layer = self.matrices / layout.tp + 2 * job.hidden
        return job.layers // layout.pp * layer + self.tables(layout, stage) * job.vocab * job.hidden


class OneTable:
    def tables(self: Any, layout: Layout, stage: int) -> int:
        return int(stage == 0)


class TablesEverywhere:
    def tables(self: Any, layout: Layout, stage: int) -> int:
        return 2


class PlainMlps:
    @property
    def matrices(self: Any) -> float:
        return 2 * self.job.hidden * (self.job.hidden + self.kv_width) + 2 * self.job.hidden * self.job.ffn


class OneInFlight:
    def in_flight(self: Any, layout: Layout, stage: int) -> int:
        return 1


class AllInFlight:
    def in_flight(self: Any, layout: Layout, stage: int) -> int:
        return self.micro_batches(layout)


class AsTheFirstStage:
    def in_flight(self: Any, layout: Layout, stage: int) -> int:
        return min(layout.pp, self.micro_batches(layout))


class MoreThanThereAre:
    def in_flight(self: Any, layout: Layout, stage: int) -> int:
        return layout.pp - stage


class KeepsAll:
    def kept_bytes(self: Any, layout: Layout, stage: int) -> float:
        layers = self.job.layers // layout.pp
        return self.in_flight(layout, stage) * layers * self.layer_bytes(layout)


class NoInside:
    def kept_bytes(self: Any, layout: Layout, stage: int) -> float:
        if layout.recompute != "full":
            return super().kept_bytes(layout, stage)  # type: ignore[misc]
        return self.in_flight(layout, stage) * (self.job.layers // layout.pp) * self.input_bytes(layout)


class InsidesOfAll:
    """The inside of every layer of the stage, in place of one."""

    def kept_bytes(self: Any, layout: Layout, stage: int) -> float:
        layers = self.job.layers // layout.pp
        kept = self.in_flight(layout, stage) * layers
        if layout.recompute != "full":
            return kept * self.layer_bytes(layout)
        return kept * self.input_bytes(layout) + layers * self.layer_bytes(layout)


class OutsideCut:
    """``tp`` cuts all that a layer keeps, also without sequence parallelism."""

    def layer_bytes(self: Any, layout: Layout) -> float:
        job, kv = self.job, self.kv_width
        cut = 12 * job.hidden + 4 * kv + (8 if job.gated else 4) * job.ffn + 6 * job.gated * (job.hidden + kv)
        return layout.micro_batch * job.seq * cut / layout.tp

    def input_bytes(self: Any, layout: Layout) -> float:
        return 2 * layout.micro_batch * self.job.seq * self.job.hidden / layout.tp


class NoRotation:
    def layer_bytes(self: Any, layout: Layout) -> float:
        rotated = 6 * (self.job.hidden + self.kv_width) if self.job.gated else 0
        return super().layer_bytes(layout) - layout.micro_batch * self.job.seq * rotated / layout.tp  # type: ignore[misc]


class LogitsInTwoBytes:
    logit_bytes = 2


class LogitsEverywhere:
    def memory(self: Any, layout: Layout, stage: int) -> dict[str, float]:
        rows = layout.micro_batch * self.job.seq
        logits = self.logit_bytes * rows * self.job.vocab / layout.tp
        return super().memory(layout, stage) | {"logits": logits}  # type: ignore[misc]
