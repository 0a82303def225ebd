"""What the data axis sends in a step, and how much of it does not hide behind computing.

Stage 0: an all-reduce of the gradients. 1: a reduce-scatter of them, and an all-gather of the weights; 2: the same, and
the reduce-scatter for each micro-batch, since no rank has room for the sums of all. 3: for
each micro-batch, layer by layer, two all-gathers of the weights and a reduce-scatter of the gradients. Hybrid sharding
does so among neighbours, and all-reduces the shares among the others once a step. Experts that ranks have shared out
go to those alone that hold the same ones.

Gradients can hide behind the backward pass, in the buckets that the program sends them in. The weights that stages 1
and 2 gather after the optimizer find nothing to hide behind, unless the program puts that off into the next forward
pass; those that stage 3 gathers hide where the program gathers a layer ahead, and else the layer waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from course_lib.plan.estimate.links import Group
from course_lib.plan.estimate.memory import expert_copies, expert_parameters, stage_parameters
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.model import Decoder
from course_lib.plan.inputs.software import Software

__all__ = ["data_axis_s"]

_BACKWARD = 2 / 3  # of a micro-batch's time: the last one's is all that gradients can hide behind
_WEIGHT_BYTES = 2


def data_axis_s(
    model: Decoder,
    layout: Layout,
    cluster: ClusterSpec,
    constants: Constants,
    software: Software,
    layers: int,
    layer_s: float,
    micro_batches: float,
) -> float:
    """Exposed seconds of a step; ``layers`` on the rank, each ``layer_s`` long for a micro-batch.

    Where sharding 3 gathers the next layer ahead, or the program overlaps more than the backward pass, weights hide
    too, and of what would show the same share hides once more.
    """
    size = layout.dp * layout.cp
    if size == 1:
        return 0.0
    tables = 1 if layout.pp > 1 or model.tied else 2
    numbers = stage_parameters(model, layout, layers, tables)
    experts = expert_parameters(model, layout, layers)
    shared = [(numbers - experts, _Sharers(size, min(layout.shards, size), layout.tp))]
    if experts:
        copies, stride = int(expert_copies(layout)), layout.tp * layout.ep
        shared.append((experts, _Sharers(size // layout.ep, copies, stride)))
    sent = [
        _sent_s(layout.sharding, layers, each, *sharers.groups(cluster, constants), software, micro_batches)
        for each, sharers in shared
    ]
    gradients_s, weights_s = sum(one.gradients_s for one in sent), sum(one.weights_s for one in sent)
    window_s = micro_batches * layers * layer_s
    if layout.sharding < 3:
        window_s = (micro_batches if layout.sharding == 2 else 1.0) * _BACKWARD * layers * layer_s
    ahead = software.overlaps or (layout.sharding == 3 and software.prefetches)
    shown = (1 - constants.hidden_share) ** (2 if ahead else 1)
    hiding_s = gradients_s + (weights_s if ahead else 0.0)
    return gradients_s + weights_s - (1 - shown) * min(hiding_s, window_s)


class _Sent(NamedTuple):
    """Seconds on the data axis in a step, hidden or not, by what is sent."""

    gradients_s: float
    weights_s: float


@dataclass(frozen=True)
class _Sharers:
    """Ranks that hold the same numbers: ``size`` of them, each ``stride`` after the last; ``shards`` share them out."""

    size: int
    shards: int
    stride: int

    def groups(self, cluster: ClusterSpec, constants: Constants) -> tuple[Group, Group]:
        """The ranks that share states out, and the groups of ranks with the same share (hybrid sharding)."""
        inner = Group.of(cluster, constants, self.shards, self.stride)
        return inner, Group.of(cluster, constants, self.size // self.shards, self.stride * self.shards)


def _sent_s(
    sharding: int,
    layers: int,
    numbers: float,
    inner: Group,
    outer: Group,
    software: Software,
    micro_batches: float,
) -> _Sent:
    """Of ``numbers`` in a step; gradients in buckets, or all at once."""
    reduced_bytes = software.reduce_bytes * numbers
    buckets = max(1.0, reduced_bytes / software.bucket_bytes) if software.bucket_bytes else 1.0
    if sharding == 0:  # shards is 1: all copies are the outer group
        return _Sent(buckets * outer.all_reduce_s(reduced_bytes / buckets), 0.0)
    outer_s = outer.all_reduce_s(reduced_bytes / inner.size)
    if sharding == 3:
        calls = layers * software.sharded_calls_a_layer
        gathered_s = micro_batches * calls * inner.all_gather_s(_WEIGHT_BYTES * numbers / calls)
        return _Sent(micro_batches * calls * inner.all_gather_s(reduced_bytes / calls) + outer_s, 2 * gathered_s)
    times = micro_batches if sharding == 2 else 1.0
    reduced_s = times * buckets * inner.all_gather_s(reduced_bytes / buckets) + outer_s
    return _Sent(reduced_s, inner.all_gather_s(_WEIGHT_BYTES * numbers))
