"""What the data axis sends in a step, and how much of it does not hide behind computing.

Stage 0: an all-reduce of the gradients. 1: a reduce-scatter of them, and an all-gather of the weights; 2: the same, and
the reduce-scatter for each micro-batch, since no rank has room for the sums of all. 3: for
each micro-batch, layer by layer, two all-gathers of the weights and a reduce-scatter of the gradients. Hybrid sharding
does so among neighbours, and all-reduces the shares among the others once a step.
"""

from __future__ import annotations

from course_lib.plan.cluster import Cluster
from course_lib.plan.constants import Constants
from course_lib.plan.layout import Layout
from course_lib.plan.links import Group
from course_lib.plan.memory import stage_parameters
from course_lib.plan.model import Decoder
from course_lib.plan.software import Software

__all__ = ["data_axis_s"]

_BACKWARD = 2 / 3  # of a micro-batch's time: the last one's is all that gradients can hide behind
_WEIGHT_BYTES = 2


def data_axis_s(
    model: Decoder,
    layout: Layout,
    cluster: Cluster,
    constants: Constants,
    software: Software,
    layers: int,
    layer_s: float,
    micro_batches: float,
) -> float:
    """Exposed seconds of a step; ``layers`` on the rank, each ``layer_s`` long for a micro-batch."""
    size = layout.dp * layout.cp
    if size == 1:
        return 0.0
    group = Group.of(cluster, constants, size, layout.tp)
    tables = 1 if layout.pp > 1 or model.tied else 2
    numbers = stage_parameters(model, layout, layers, tables)
    if layout.sharding == 3:
        sent_s = micro_batches * _sharded_s(layout, cluster, constants, software, numbers, layers)
        inner, outer = _groups(layout, cluster, constants)
        sent_s += outer.all_reduce_s(software.reduce_bytes * numbers / inner.size)
        window_s = micro_batches * layers * layer_s
    else:
        reduced_bytes = software.reduce_bytes * numbers
        sent_s = group.all_reduce_s(reduced_bytes)
        if layout.sharding:
            times = micro_batches if layout.sharding == 2 else 1.0
            sent_s = _shared_out_s(layout, cluster, constants, times, reduced_bytes, _WEIGHT_BYTES * numbers)
        window_s = (micro_batches if layout.sharding == 2 else 1.0) * _BACKWARD * layers * layer_s
    return sent_s - constants.hidden_share * min(sent_s, window_s)


def _groups(layout: Layout, cluster: Cluster, constants: Constants) -> tuple[Group, Group]:
    """The ranks that share states out, and the groups of ranks with the same share (hybrid sharding)."""
    size = layout.dp * layout.cp
    shards = min(layout.shards, size)
    inner = Group.of(cluster, constants, shards, layout.tp)
    return inner, Group.of(cluster, constants, size // shards, layout.tp * shards)


def _shared_out_s(
    layout: Layout,
    cluster: Cluster,
    constants: Constants,
    times: float,
    reduced_bytes: float,
    gathered_bytes: float,
) -> float:
    """``times`` reduce-scatters of the gradients and one all-gather of the weights."""
    inner, outer = _groups(layout, cluster, constants)
    reduced_s = times * inner.all_gather_s(reduced_bytes) + outer.all_reduce_s(reduced_bytes / inner.size)
    return reduced_s + inner.all_gather_s(gathered_bytes)


def _sharded_s(
    layout: Layout,
    cluster: Cluster,
    constants: Constants,
    software: Software,
    numbers: float,
    layers: int,
) -> float:
    """Two all-gathers and a reduce-scatter for one micro-batch, in as many calls as the software makes of them."""
    calls = layers * software.sharded_calls_a_layer
    inner, _ = _groups(layout, cluster, constants)
    gathered_s = inner.all_gather_s(_WEIGHT_BYTES * numbers / calls)
    reduced_s = inner.all_gather_s(software.reduce_bytes * numbers / calls)
    return calls * (2 * gathered_s + reduced_s)
