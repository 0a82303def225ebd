"""How long a step of a layout takes, in closed form: computing, collectives of ``tp``, the bubble, hops, gradients.

The planner's formulas (``course_lib.plan.estimate.step_time``) for a model whose layers are all alike, with nothing
else in them. A formula counts no rank and plays no schedule: ``mesh_time.py`` does, and says how far apart the two are.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, not_negative
from course_lib.layouts.link import Link

__all__ = ["Cut", "NodeShape", "StepCompute", "layout_step_s", "ring_s"]


@checked
@dataclass(frozen=True)
class StepCompute:
    """What a step has to do, whoever does it. Backward computes twice as long as forward.

    ``forward_s``: of one layer, for the whole batch, on one device; ``activation_bytes``: what one layer gives the
    next, for the whole batch; ``gradient_bytes``: of all layers together.
    """

    layers: int
    forward_s: float
    activation_bytes: float
    gradient_bytes: float

    def __post_init__(self) -> None:
        at_least(1, layers=self.layers)
        not_negative(
            forward_s=self.forward_s,
            activation_bytes=self.activation_bytes,
            gradient_bytes=self.gradient_bytes,
        )


@checked
@dataclass(frozen=True)
class Cut:
    """How the work is cut. Ranks along ``tp`` are neighbours, then those along ``dp``, and ``pp`` is outermost.

    ``micro_batches`` of one pipeline: parts of the batch that follow each other (1 where there is no pipeline, or
    more). ``buckets``: in how many equal parts the gradients travel, each as soon as backward has made it.
    """

    pp: int = 1
    dp: int = 1
    tp: int = 1
    micro_batches: int = 1
    buckets: int = 1

    def __post_init__(self) -> None:
        at_least(1, pp=self.pp, dp=self.dp, tp=self.tp)
        at_least(1, micro_batches=self.micro_batches, buckets=self.buckets)


@checked
@dataclass(frozen=True)
class NodeShape:
    """``ranks_per_node`` ranks have links ``within`` a node, and links ``between`` join ranks of different nodes."""

    ranks_per_node: int
    within: Link
    between: Link

    def __post_init__(self) -> None:
        at_least(1, ranks_per_node=self.ranks_per_node)

    def link(self, size: int, stride: int) -> Link:
        """That of an axis of ``size`` ranks, each ``stride`` after the one before: the slowest that it passes."""
        return self.within if size * stride <= self.ranks_per_node else self.between


@checked
def ring_s(size: int, link: Link, size_bytes: float) -> float:
    """A ring all-reduce of ``size_bytes`` among ``size`` ranks: 2(n - 1) rounds, an n-th of the bytes in each."""
    at_least(1, size=size)
    not_negative(size_bytes=size_bytes)
    return 2 * (size - 1) * link.time_s(size_bytes / size)


@checked
def layout_step_s(work: StepCompute, cut: Cut, nodes: NodeShape) -> float:
    """Seconds of a step: as many slots as micro-batches and bubble make, and the gradients that nothing hides.

    A slot is a micro-batch on a stage, forward and backward, with two all-reduces of ``tp`` in each of a layer's
    passes, and a message to the next stage and one back. The last bucket of gradients has nothing to hide behind, and
    the others may hide behind the backward of the last micro-batch.
    """
    pp, dp, tp = cut.pp, cut.dp, cut.tp
    layers = work.layers / pp
    share = dp * cut.micro_batches  # of the batch, a micro-batch
    part_bytes = work.activation_bytes / share
    computing_s = work.forward_s / share / tp
    sums_s = 2 * ring_s(tp, nodes.link(tp, 1), part_bytes)
    forward_s, backward_s = layers * (computing_s + sums_s), layers * (2 * computing_s + sums_s)
    hop_s = nodes.link(pp, tp * dp).time_s(part_bytes) if pp > 1 else 0.0
    slots_s = (cut.micro_batches + pp - 1) * (forward_s + backward_s + 2 * hop_s)
    bucket_s = ring_s(dp, nodes.link(dp, tp), work.gradient_bytes / pp / tp / cut.buckets)
    shown_s = max(bucket_s, cut.buckets * bucket_s - (1 - 1 / cut.buckets) * backward_s)
    return slots_s + shown_s
