"""11.planner: usual mistakes about computing; each stands before a whole planner and changes a formula of it."""

from __future__ import annotations

from typing import Any

from course_lib.plan.inputs.layout import Layout

__all__ = [
    "BackwardAsForward",
    "ComputesWhole",
    "FirstStageForAll",
    "ForwardOnly",
    "NoBubble",
    "NoHost",
    "NoOutput",
    "NoScores",
    "NotAgain",
    "OneFlopEach",
    "OneSlotTooMany",
    "SlowestForAll",
    "TokensOfAll",
]


class NoBubble:
    def compute_s(self: Any, layout: Layout) -> float:
        return self.micro_batches(layout) * max(self.slot_s(layout, stage) for stage in range(layout.pp))


class OneSlotTooMany:
    def compute_s(self: Any, layout: Layout) -> float:
        every = [self.slot_s(layout, stage) for stage in range(layout.pp)]
        return sum(every) + self.micro_batches(layout) * max(every)


class SlowestForAll:
    def compute_s(self: Any, layout: Layout) -> float:
        return self.slots(layout) * max(self.slot_s(layout, stage) for stage in range(layout.pp))


class FirstStageForAll:
    def compute_s(self: Any, layout: Layout) -> float:
        return self.slots(layout) * self.slot_s(layout, 0)


class TokensOfAll:
    """Each rank computes on the global batch."""

    def compute_s(self: Any, layout: Layout) -> float:
        every = [self.slot_s(layout, stage) for stage in range(layout.pp)]
        return sum(every) + (self.job.batch // layout.micro_batch - 1) * max(every)


class ForwardOnly:
    def slot_s(self: Any, layout: Layout, stage: int) -> float:
        job, rate = self.job, self.machines.peak_flops_per_s * self.machines.share
        output_s = 2 * layout.micro_batch * job.seq * job.vocab * job.hidden / layout.tp / rate
        layers_s = (job.layers // layout.pp) * self.pass_s(layout, 1)
        return layers_s + (output_s if stage == layout.pp - 1 else 0.0)


class BackwardAsForward:
    def slot_s(self: Any, layout: Layout, stage: int) -> float:
        job, rate = self.job, self.machines.peak_flops_per_s * self.machines.share
        output_s = 2 * 2 * layout.micro_batch * job.seq * job.vocab * job.hidden / layout.tp / rate
        passes = 3 if layout.recompute == "full" else 2
        layers_s = passes * (job.layers // layout.pp) * self.pass_s(layout, 1)
        return layers_s + (output_s if stage == layout.pp - 1 else 0.0)


class NotAgain:
    def slot_s(self: Any, layout: Layout, stage: int) -> float:
        again_s = self.job.layers // layout.pp * self.pass_s(layout, 1) if layout.recompute == "full" else 0.0
        return super().slot_s(layout, stage) - again_s  # type: ignore[misc]


class NoOutput:
    def slot_s(self: Any, layout: Layout, stage: int) -> float:
        return super().slot_s(layout, 0 if layout.pp > 1 else -1)  # type: ignore[misc]


class NoScores:
    def forward_s(self: Any, layout: Layout) -> float:
        rate = self.machines.peak_flops_per_s * self.machines.share
        return layout.micro_batch * self.job.seq * 2 * self.matrices / layout.tp / rate


class OneFlopEach:
    """A multiplication and its addition counted as one, in the matrices."""

    def forward_s(self: Any, layout: Layout) -> float:
        job, rate = self.job, self.machines.peak_flops_per_s * self.machines.share
        return layout.micro_batch * job.seq * (self.matrices + 4 * job.seq * job.hidden) / layout.tp / rate


class ComputesWhole:
    """``tp`` shares no computing of layers."""

    def forward_s(self: Any, layout: Layout) -> float:
        return super().forward_s(layout) * layout.tp  # type: ignore[misc]


class NoHost:
    def pass_s(self: Any, layout: Layout, forwards: float) -> float:
        return forwards * self.forward_s(layout)
