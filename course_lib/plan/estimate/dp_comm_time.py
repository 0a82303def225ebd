"""What the data axis sends in a step, and how much of it does not hide behind computing.

Stage 0: an all-reduce of the gradients. 1: a reduce-scatter of them, and an all-gather of the weights; 2: the same, and
the reduce-scatter for each micro-batch, since no rank has room for the sums of all. 3: for
each micro-batch, layer by layer, two all-gathers of the weights and a reduce-scatter of the gradients. Hybrid sharding
does so among neighbours, and all-reduces the shares among the others once a step, which can hide behind the last
backward pass alone. Experts that ranks have shared out
go to those alone that hold the same ones; on a mesh of their own these may be ranks of one tensor group.

Gradients can hide behind the backward pass, in the buckets that the program sends them in; a program that sends them in
one call sends them after it, and nothing hides. The weights that stages 1
and 2 gather after the optimizer find nothing to hide behind, unless the program puts that off into the next forward
pass (``overlaps``); those that stage 3 gathers hide where the program gathers a layer ahead, and else the layer waits
for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.plan.estimate.links import Group
from course_lib.plan.estimate.memo import Memo
from course_lib.plan.estimate.memory import expert_copies, expert_parameters, stage_parameters
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.model import Decoder
from course_lib.plan.inputs.software import Software

__all__ = ["OVERLAPPED", "DataAxis", "Sending", "data_axis"]

# Of what Megatron-Core overlaps. What is sent takes some multiprocessors from what is computed: DeepSeek-V3 gives it 20
# of an H800's 132 (arXiv 2412.19437, section 3.2.2), so each second hides all but 20/132 of one.
OVERLAPPED = 1 - 20 / 132

_BACKWARD = 2 / 3  # of a micro-batch's time: the last one's is all that gradients can hide behind
_WEIGHT_BYTES = 2


class Sending(NamedTuple):
    """A collective that the data axis makes ``times`` times in a step, each of ``size_bytes``."""

    what: str  # "gradients" or "weights"
    operation: str  # "all-reduce", "reduce-scatter" or "all-gather"
    times: float
    size_bytes: float
    group: Group

    @property
    def call_s(self) -> float:
        """One of them."""
        if self.operation == "all-reduce":
            return self.group.all_reduce_s(self.size_bytes)
        return self.group.all_gather_s(self.size_bytes)  # the same bytes the other way

    @property
    def total_s(self) -> float:
        """All of them."""
        return self.times * self.call_s


class DataAxis(NamedTuple):
    """What the data axis sends in a step; ``hideable_s`` of it can hide, behind ``window_s`` of computing."""

    sendings: tuple[Sending, ...]
    hideable_s: float
    window_s: float
    hiding_share: float  # of what finds something to hide behind
    copied_s: float = 0.0  # between tensors and what is sent, on the GPU itself, and for lists on its host
    total_s: float = 0.0  # of all sendings
    # Of all-reduces of hybrid sharding, or of weights that are gathered behind the next forward pass:
    late_s: float = 0.0  # which can hide behind ``late_window_s``
    late_window_s: float = 0.0

    @property
    def behind_s(self) -> float:
        """What finds something to hide behind."""
        return min(self.hideable_s, self.window_s) + min(self.late_s, self.late_window_s)

    @property
    def hidden_s(self) -> float:
        """What computing hides."""
        return self.hiding_share * self.behind_s

    @property
    def exposed_s(self) -> float:
        """What the step waits for."""
        return self.total_s + self.copied_s - self.hidden_s


class _Sent(NamedTuple):
    """What the data axis sends in a step, whatever there is to hide it behind."""

    sendings: tuple[Sending, ...]
    total_s: float
    hideable_s: float
    copied_s: float
    late_s: float


def data_axis(
    model: Decoder,
    layout: Layout,
    cluster: ClusterSpec,
    constants: Constants,
    software: Software,
    layers: int,
    layer_s: float,
    micro_batches: float,
    memo: Memo | None = None,
) -> DataAxis:
    """Of a step; ``layers`` on the rank, each ``layer_s`` long for a micro-batch.

    Where sharding 3 gathers the next layer ahead, or the program overlaps more than the backward pass, weights hide
    too, and of what would show the same share hides once more. ``memo``: of layouts of the same job, and all else.
    """
    if layout.dp * layout.cp == 1 and not (layout.etp and layout.expert_dp > 1):
        return DataAxis((), 0.0, 0.0, 0.0)
    overlaps = software.overlaps or software.gathers_ahead
    behind_next = overlaps and layout.sharding < 3 and software.bucket_bytes > 0
    ahead = overlaps or (layout.sharding == 3 and software.prefetches)
    axes = layout.tp, layout.cp, layout.pp, layout.dp, layout.ep, layout.etp
    often = layout.micro_batch if layout.sharding > 1 else 0  # sharding 0 and 1 send once a step, however it is cut
    again = software.gathers_again and layout.recompute == "full"
    key = ("sent", *axes, often, layout.sharding, layout.shard_size, again)
    sent = (memo or Memo()).get(
        key, lambda: _sent(model, layout, cluster, constants, software, layers, micro_batches, ahead)
    )
    last_s = _BACKWARD * layers * layer_s
    window_s = micro_batches * layers * layer_s
    if layout.sharding < 3:
        window_s = (micro_batches if layout.sharding == 2 else 1.0) * last_s
    shown = (1 - constants.hidden_share) ** (2 if ahead else 1)
    if layout.sharding < 3 and not software.bucket_bytes:
        shown = 1.0
    copied_s, total_s, late_s = sent.copied_s, sent.total_s, sent.late_s
    if behind_next:
        late_s = sum(one.total_s for one in sent.sendings if one.what == "weights")
        first_s = last_s * (1 - _BACKWARD) / _BACKWARD  # the forward pass of the first micro-batch
        gradients_s = sent.hideable_s - late_s
        return DataAxis(sent.sendings, gradients_s, window_s, OVERLAPPED, copied_s, total_s, late_s, first_s)
    return DataAxis(sent.sendings, sent.hideable_s, window_s, 1 - shown, copied_s, total_s, late_s, last_s)


def _sent(
    model: Decoder,
    layout: Layout,
    cluster: ClusterSpec,
    constants: Constants,
    software: Software,
    layers: int,
    micro_batches: float,
    ahead: bool,
) -> _Sent:
    size = layout.dp * layout.cp
    tables = 1 if layout.pp > 1 or model.tied else 2
    numbers = stage_parameters(model, layout, layers, tables)
    experts = expert_parameters(model, layout, layers)
    shared = [(numbers - experts, _Sharers(size, min(layout.shards, size), layout.tp))]
    if experts:
        copies, stride = int(expert_copies(layout)), (layout.etp or layout.tp) * layout.ep
        shared.append((experts, _Sharers(layout.expert_dp, copies, stride)))
    sendings = tuple(
        one
        for each, sharers in shared
        for one in _sendings(layout, layers, each, *sharers.groups(cluster, constants), software, micro_batches)
    )
    late_s = sum(one.total_s for one in sendings if layout.sharding == 3 and one.operation == "all-reduce")
    copied_s = 0.0
    if layout.sharding == 3:
        memory = cluster.memory_bandwidth_bytes_per_s * constants.memory_share
        copied_s = micro_batches * software.copied_bytes * numbers / memory
        calls = sum(one.times for one in sendings if one.operation != "all-reduce")
        copied_s += calls * software.listed_s * min(layout.shards, size)
    total_s = sum(one.total_s for one in sendings)
    hideable_s = sum(one.total_s for one in sendings if ahead or one.what == "gradients") - late_s
    return _Sent(sendings, total_s, hideable_s, copied_s, late_s)


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


def _sendings(
    layout: Layout,
    layers: int,
    numbers: float,
    inner: Group,
    outer: Group,
    software: Software,
    micro_batches: float,
) -> Iterator[Sending]:
    """Of ``numbers`` in a step; gradients in buckets, or all at once."""
    sharding, reduced_bytes = layout.sharding, software.reduce_bytes * numbers
    buckets = max(1.0, reduced_bytes / software.bucket_bytes) if software.bucket_bytes else 1.0
    if sharding == 0:  # shards is 1: all copies are the outer group
        yield Sending("gradients", "all-reduce", buckets, reduced_bytes / buckets, outer)
        return
    if sharding == 3:
        calls = layers * software.sharded_calls_a_layer
        gathers = 3 if software.gathers_again and layout.recompute == "full" else 2
        yield Sending("gradients", "reduce-scatter", micro_batches * calls, reduced_bytes / calls, inner)
        yield Sending("weights", "all-gather", gathers * micro_batches * calls, _WEIGHT_BYTES * numbers / calls, inner)
    else:
        times = (micro_batches if sharding == 2 else 1.0) * buckets
        yield Sending("gradients", "reduce-scatter", times, reduced_bytes / buckets, inner)
        yield Sending("weights", "all-gather", 1.0, _WEIGHT_BYTES * numbers, inner)
    if outer.size > 1:
        yield Sending("gradients", "all-reduce", 1.0, reduced_bytes / inner.size, outer)
