"""How long a step takes, by part, from a job, a layout and a cluster's profile.

A layer's pass over a micro-batch is matrices (FLOPs at a share of the peak, and the bytes that they read and write),
element by element work (bytes at a share of the memory's bandwidth), and its collectives; the host must issue all of
it, and where that takes longer, the GPU waits. Backward is twice the forward work, but for scores that are not fused,
which move one and a half times as many bytes; recomputation is forward once more.
A pipeline's slowest stage sets the pace, and what the others wait is the bubble. What the data axis sends hides in
part, and so does what interleaved stages send.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2

from course_lib.plan.estimate.dp_comm_time import OVERLAPPED, data_axis
from course_lib.plan.estimate.layer_time import layer_pass, output_s
from course_lib.plan.estimate.links import Group
from course_lib.plan.estimate.memo import Memo
from course_lib.plan.estimate.memory import expert_parameters, share_of, stage_parameters
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout, placement
from course_lib.plan.inputs.software import Software
from course_lib.plan.inputs.stages import layers_of_stages

__all__ = [
    "ADAM_BYTES",
    "FEWER_BACKWARD",
    "GRADIENT_SUM_BYTES",
    "HOST_ADAM_BYTES_PER_S",
    "LayerStep",
    "StepParts",
    "gradient_sum_s",
    "hop_s",
    "hop_shown",
    "layer_step",
    "least_step_s",
    "optimizer_numbers",
    "step_parts",
    "tensor_shown",
]

ADAM_BYTES = 34  # read and written for a parameter: gradient, master and two moments there and back, weight
# Of a gradient that is added to others, by the bytes that software keeps of it: in two bytes; in float32 inside of the
# product, which would have written two bytes; or from two bytes to float32.
GRADIENT_SUM_BYTES = {2: 6, 4: 6, 6: 10}
# Unfused scores move 18 bytes backward, where twice the forward pass would be 24. Dropped probabilities are read, and
# their gradients written. Dropout reads these and a mask of one byte, and writes. The softmax reads both, and writes
# below the diagonal. Two products read the result.
FEWER_BACKWARD = 0.5  # of a forward pass
HOST_ADAM_BYTES_PER_S = 100e9  # what a host's memory lets through, where it updates offloaded states


@dataclass(frozen=True)
class StepParts:
    """Seconds of a step, by what they go to; they add up to the step."""

    compute_s: float
    output_s: float  # the matrix over the vocabulary and the loss, where their stage sets the pace
    host_s: float  # the GPU waits for the host
    tensor_s: float
    context_s: float
    expert_s: float
    pipeline_s: float  # messages between stages
    bubble_s: float
    data_s: float  # what does not hide
    optimizer_s: float

    @property
    def total_s(self) -> float:
        """The step."""
        moved_s = self.tensor_s + self.context_s + self.expert_s + self.pipeline_s + self.data_s
        return self.compute_s + self.output_s + self.host_s + moved_s + self.bubble_s + self.optimizer_s


@dataclass(frozen=True)
class LayerStep:
    """Seconds of a layer for one micro-batch, forward, backward and what is computed again."""

    compute_s: float
    host_s: float
    tensor_s: float
    context_s: float
    expert_s: float

    @cached_property
    def total_s(self) -> float:
        """All of it."""
        return self.compute_s + self.host_s + self.tensor_s + self.context_s + self.expert_s


def step_parts(
    job: Job,
    layout: Layout,
    cluster: ClusterSpec,
    constants: Constants,
    software: Software,
    memo: Memo | None = None,
) -> StepParts:
    """Seconds of one step by part. Legal layouts only: what is illegal is said by ``rules``.

    ``memo``: of layouts of this job on this cluster, with these constants and this program.
    """
    model, pp, memo = job.model, layout.pp, memo or Memo()
    layer = _known_layer(job, layout, cluster, constants, software, memo)
    counts = layers_of_stages(model, pp, software)
    vocabulary_s = _known_output_s(job, layout, cluster, constants, software, memo)
    slowest, others_s = memo.get(("pace", pp, id(layer)), lambda: _pace(counts, layer.total_s, vocabulary_s))
    micro_batches = max(1.0, job.batch / (layout.micro_batch * layout.dp))
    hop = hop_s(job, layout, cluster, constants)
    shown = hop_shown(layout, constants, software)
    layers = micro_batches * counts[slowest]
    return StepParts(
        compute_s=layers * layer.compute_s,
        output_s=micro_batches * vocabulary_s if slowest == pp - 1 else 0.0,
        host_s=layers * layer.host_s,
        tensor_s=layers * layer.tensor_s,
        context_s=layers * layer.context_s,
        expert_s=layers * layer.expert_s,
        pipeline_s=micro_batches * 2 * hop * layout.chunks * shown,
        bubble_s=(others_s + 2 * hop * (pp - 1)) / layout.chunks,
        data_s=data_axis(
            model, layout, cluster, constants, software, max(counts), layer.total_s, micro_batches, memo
        ).exposed_s,
        optimizer_s=_optimizer_s(job, layout, cluster, constants, max(counts)),
    )


def least_step_s(
    job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software, memo: Memo
) -> float:
    """What a step takes at least: without messages between stages and along the data axis, and without the optimizer.

    It takes a tenth of the work of ``step_parts``, so a search asks it first.
    """
    layer_s = _known_layer(job, layout, cluster, constants, software, memo).total_s
    counts = layers_of_stages(job.model, layout.pp, software)
    most = memo.get(("most layers before the last stage", layout.pp), lambda: max(counts[:-1], default=0))
    last_s = counts[-1] * layer_s + _known_output_s(job, layout, cluster, constants, software, memo)
    slowest_s = max(most * layer_s, last_s)
    waits_s = (job.model.layers - counts[-1]) * layer_s + last_s - slowest_s
    return max(1.0, job.batch / (layout.micro_batch * layout.dp)) * slowest_s + waits_s / layout.chunks


def _pace(counts: Sequence[int], layer_s: float, vocabulary_s: float) -> tuple[int, float]:
    """The slowest stage, and what a micro-batch takes on all others."""
    stages_s = [count * layer_s for count in counts]
    stages_s[-1] += vocabulary_s
    slowest = max(range(len(counts)), key=stages_s.__getitem__)
    return slowest, sum(stages_s) - stages_s[slowest]


def _known_layer(
    job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software, memo: Memo
) -> LayerStep:
    """A layer's times: layouts that differ in stages, chunks and copies alone have the same."""
    waits = (layout.pp, layout.dp) if software.reads_sizes else ()
    adds_up = layout.sharding < 2 and job.batch > layout.micro_batch * layout.dp
    sizes = layout.tp, layout.cp, layout.ep, layout.etp, layout.micro_batch
    key = ("layer", *sizes, layout.sequence_parallel, layout.recompute, adds_up, waits)
    return memo.get(key, lambda: layer_step(job, layout, cluster, constants, software))


def _known_output_s(
    job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software, memo: Memo
) -> float:
    key = ("output", layout.tp, layout.cp, layout.micro_batch)
    return memo.get(key, lambda: output_s(job, layout, cluster, constants, software))


def _host_waits(layout: Layout, cluster: ClusterSpec, software: Software) -> float:
    """How many times as long the host needs for a layer.

    A stage that reads the size of each message waits for the network with nothing issued ahead. The ranks of a tensor
    group then begin each collective apart, and every doubling of the group waits for a later one.
    """
    leaves = layout.pp > 1 and not placement(cluster, layout.pp, layout.gpus // layout.pp).inside
    return 1 + log2(layout.tp) if software.reads_sizes and leaves else 1.0


def layer_step(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software) -> LayerStep:
    """Three passes of work and two of collectives, and once more of both with full recomputation."""
    forward = layer_pass(job, layout, cluster, constants, software)
    host_layer_s = constants.host_layer_s * _host_waits(layout, cluster, software)
    again = 1.0 if layout.recompute == "full" else 0.0
    compute_s = (3 + again) * forward.compute_s - FEWER_BACKWARD * forward.scores_s
    if layout.recompute == "selective" or (software.fused_attention and not again):
        compute_s += forward.attention_s  # the scores anew
    if layout.recompute == "selective" and software.selective_products:
        compute_s += 0.5 * (forward.compute_s - forward.attention_s)
    compute_s += gradient_sum_s(job, layout, cluster, constants, software)
    shared = [  # a ring's backward pass sends keys and values, and their gradients
        (2 + again) * forward.tensor_s * tensor_shown(layout, software),
        (3 + again) * forward.context_s,
        (2 + again) * forward.expert_s,
    ]
    issue_s = (2 + again) * host_layer_s
    host_s = issue_s if software.blocks else max(0.0, issue_s - compute_s - sum(shared))
    return LayerStep(compute_s, host_s, *shared)


def tensor_shown(layout: Layout, software: Software) -> float:
    """Which share of the tensor axis' collectives the step waits for.

    Megatron-Core cuts each into as many pieces as there are ranks, and multiplies one while the next travels (its
    ``--tp-comm-overlap``, by Transformer Engine): the first has nothing to hide behind.
    """
    return 1 - OVERLAPPED * (1 - 1 / layout.tp) if software.overlaps else 1.0


def gradient_sum_s(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software) -> float:
    """Adding a micro-batch's gradients of a layer to those before, in seconds; 0 where shares are added up alone."""
    if layout.sharding >= 2 or job.batch <= layout.micro_batch * layout.dp:
        return 0.0
    moved_bytes = GRADIENT_SUM_BYTES[software.gradient_bytes] * stage_parameters(job.model, layout, 1, 0)
    return moved_bytes / (cluster.memory_bandwidth_bytes_per_s * constants.memory_share)


def hop_s(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants) -> float:
    """What a stage hands on: with tensor parallelism each rank sends its part, and NVLink puts them together."""
    if layout.pp == 1:
        return 0.0
    group = Group.of(cluster, constants, layout.pp, layout.tp * layout.cp * layout.dp)
    sent_bytes = 2 * layout.micro_batch * job.seq / layout.cp * job.model.hidden
    joined_s = 0.0
    if not layout.sequence_parallel:
        joined_s = Group.of(cluster, constants, layout.tp, 1).all_gather_s(sent_bytes)
    return group.send_s(sent_bytes / layout.tp) + joined_s


def hop_shown(layout: Layout, constants: Constants, software: Software) -> float:
    """Which share of a message between stages a step waits for: with chunks, another one computes meanwhile."""
    if layout.chunks == 1:
        return 1.0
    return 1 - (OVERLAPPED if software.overlaps or software.sends_ahead else constants.hidden_share)


def _optimizer_s(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, layers: int) -> float:
    """Every state is read and written once; with ``offload`` gradients go to the host and weights come back."""
    numbers = optimizer_numbers(job, layout, layers)
    if layout.offload:
        return numbers * ((4 + 2) / cluster.host_bandwidth_bytes_per_s + ADAM_BYTES / HOST_ADAM_BYTES_PER_S)
    return numbers * ADAM_BYTES / (cluster.memory_bandwidth_bytes_per_s * constants.memory_share)


def optimizer_numbers(job: Job, layout: Layout, layers: int) -> float:
    """How many weights a rank's optimizer updates."""
    tables = 1 if layout.pp > 1 or job.model.tied else 2
    whole = stage_parameters(job.model, layout, layers, tables)
    return share_of(whole, expert_parameters(job.model, layout, layers), layout)
