"""What the data axis sends in a step, and how much of it does not hide behind computing.

Stage 0: an all-reduce of the gradients. 1: a reduce-scatter of them, and an all-gather of the weights; 2: the same, and
the reduce-scatter for each micro-batch, since no rank has room for the sums of all. 3: for
each micro-batch, layer by layer, two all-gathers of the weights and a reduce-scatter of the gradients. Hybrid sharding
does so among neighbours, and all-reduces the shares among the others once a step. Experts that ranks have shared out
go to those alone that hold the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    Where sharding 3 gathers the next layer ahead, or the program overlaps more than the backward pass, of what would
    show the same share hides once more.
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
    sent_s = sum(
        _sent_s(layout.sharding, layers, each, *sharers.groups(cluster, constants), software, micro_batches)
        for each, sharers in shared
    )
    window_s = micro_batches * layers * layer_s
    if layout.sharding < 3:
        window_s = (micro_batches if layout.sharding == 2 else 1.0) * _BACKWARD * layers * layer_s
    ahead = software.overlaps or (layout.sharding == 3 and software.prefetches)
    shown = (1 - constants.hidden_share) ** (2 if ahead else 1)
    return sent_s - (1 - shown) * min(sent_s, window_s)


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
) -> float:
    """Seconds in which ``numbers`` go over the data axis in a step, hidden or not."""
    reduced_bytes = software.reduce_bytes * numbers
    if sharding == 0:
        return outer.all_reduce_s(reduced_bytes)  # shards is 1: all copies are the outer group
    outer_s = outer.all_reduce_s(reduced_bytes / inner.size)
    if sharding == 3:
        return micro_batches * _sharded_s(inner, software, numbers, layers) + outer_s
    times = micro_batches if sharding == 2 else 1.0
    reduced_s = times * inner.all_gather_s(reduced_bytes) + outer_s
    return reduced_s + inner.all_gather_s(_WEIGHT_BYTES * numbers)


def _sharded_s(inner: Group, software: Software, numbers: float, layers: int) -> float:
    """Two all-gathers and a reduce-scatter for one micro-batch, in as many calls as the software makes of them."""
    calls = layers * software.sharded_calls_a_layer
    gathered_s = inner.all_gather_s(_WEIGHT_BYTES * numbers / calls)
    reduced_s = inner.all_gather_s(software.reduce_bytes * numbers / calls)
    return calls * (2 * gathered_s + reduced_s)
