"""How many bytes a rank needs at most, by part: weights, gradients, optimizer, activations, logits, and a reserve.

Activations of a layer follow Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
2022: s b h (10 + 24/t + 5 a s / (h t)) bytes, with sequence parallelism all of it by t; here with the widths of
grouped heads and gated MLPs, and without masks where there is no dropout. Where attention is fused there are no
scores, and three things differ, found in the memory of the runs behind the Ultra-Scale Playbook: queries and keys are
kept before and after their rotation, also in float32; one region's input may stay gathered under sequence
parallelism; and "selective" may be torchtitan's, where every second product is computed again. A stage of 1F1B keeps
as many micro-batches as there are stages from it to the end; interleaving keeps more (Korthikanti, section 4.2.3).
Every kind of stage is asked, and the one that needs most is told.

States: 2 bytes of weight, a gradient, and 12 of master copy and two moments (Rajbhandari et al., "ZeRO", 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.plan.estimate.memo import Memo
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.model import Decoder
from course_lib.plan.inputs.software import Software
from course_lib.plan.inputs.stages import layers_of_stages

__all__ = [
    "GATHERED_LAYERS",
    "OPTIMIZER_BYTES",
    "WEIGHT_BYTES",
    "MemoryParts",
    "again_layer_bytes",
    "expert_copies",
    "expert_parameters",
    "fullest_stage",
    "gathered_bytes",
    "handed_bytes",
    "in_flight",
    "layer_activation_bytes",
    "memory_parts",
    "share_of",
    "stage_parameters",
    "tables_of",
]

WEIGHT_BYTES, OPTIMIZER_BYTES = 2, 12
_PIPELINE_BYTES = 12  # a number of the stage's input and output: both, their gradients, and copies to send
GATHERED_LAYERS = 2  # of sharding 3: the one that computes and the one that comes next


@dataclass(frozen=True)
class MemoryParts:
    """Bytes of the rank that needs most, by what they hold."""

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    logits_bytes: float
    reserve_bytes: float

    @property
    def total_bytes(self) -> float:
        """All of it."""
        held = self.weights_bytes + self.gradients_bytes + self.optimizer_bytes
        return held + self.activations_bytes + self.logits_bytes + self.reserve_bytes


def stage_parameters(model: Decoder, layout: Layout, layers: int, tables: int) -> float:
    """Numbers that a rank holds of a stage: ``layers`` layers, its experts, and ``tables`` of the vocabulary."""
    experts = model.experts * model.mlp_weights / layout.ep
    if layout.etp:  # on a mesh of their own
        layer = model.attention_weights / layout.tp + experts / layout.etp + model.small_weights
        return layers * layer + tables * model.embedding_parameters / layout.tp
    layer = (model.attention_weights + experts) / layout.tp + model.small_weights
    return layers * layer + tables * model.embedding_parameters / layout.tp


def expert_parameters(model: Decoder, layout: Layout, layers: int) -> float:
    """Of those numbers the ones of experts that the ranks have shared out, or that have a mesh of their own.

    0 where every rank holds all experts, as it holds the dense layers.
    """
    if layout.etp:
        return layers * model.experts * model.mlp_weights / (layout.ep * layout.etp)
    if layout.ep == 1:
        return 0.0
    return layers * model.experts * model.mlp_weights / (layout.ep * layout.tp)


def expert_copies(layout: Layout) -> float:
    """Among how many ranks a rank's own experts are shared out: of those that share, the ones that hold the same."""
    if layout.etp:
        if not layout.sharding:
            return 1
        return layout.expert_dp * (layout.shard_size or layout.dp * layout.cp) // (layout.dp * layout.cp)
    return layout.shards / min(layout.ep, max(1, layout.shards // layout.cp))


def share_of(numbers: float, experts: float, layout: Layout) -> float:
    """What a rank keeps of ``numbers`` that are shared out, ``experts`` of which are on every ``ep``-th rank alone."""
    return (numbers - experts) / layout.shards + experts / expert_copies(layout)


def tables_of(model: Decoder, stage: int, stages: int) -> int:
    """Tables of the vocabulary on a stage: the embedding on the first, the output on the last; tied on one are one."""
    if stages == 1:
        return 1 if model.tied else 2
    return int(stage in (0, stages - 1))


def layer_activation_bytes(model: Decoder, layout: Layout, seq: int, software: Software) -> float:
    """What a rank keeps of one layer for the backward pass of one micro-batch, in bytes.

    Unfused, with dropout and MLPs of 4 h this is the formula of Korthikanti et al. to the byte.
    """
    rows, h, tp = layout.micro_batch * seq / layout.cp, model.hidden, layout.tp
    outside_tp = tp if layout.sequence_parallel else 1
    if layout.recompute == "full":
        return 2 * rows * h / outside_tp  # the input alone
    outside = 8 * h + (2 * h if software.dropout else 0)  # two norms' inputs, two regions' inputs, masks
    if software.selective_products and layout.recompute == "selective":
        return rows * (8 * h / outside_tp + 2 * (model.kv_width + _met_ffn(model)) / tp)
    inside = 4 * model.q_width + 4 * model.kv_width + (8 if model.gated else 4) * _met_ffn(model)
    if software.fused_attention:
        rotated = 6 * (model.q_width + model.kv_width) if model.gated else 0
        gathered = 2 * h * (1 - 1 / tp) if layout.sequence_parallel and software.keeps_gathered else 0
        return rows * (outside / outside_tp + (inside + rotated) / tp + gathered)
    scores = 0.0 if layout.recompute == "selective" else (5 if software.dropout else 2) * model.heads * seq
    return rows * (outside / outside_tp + (inside + scores) / tp)


def _met_ffn(model: Decoder) -> int:
    """The width of the MLPs that a token meets."""
    return model.ffn * model.experts_per_token


def in_flight(layout: Layout, stage: int, micro_batches: int) -> float:
    """Micro-batches whose activations a stage keeps at once, in layers of its own; more where it interleaves."""
    kept = float(layout.pp - stage)
    if layout.chunks > 1:
        kept += (layout.pp - 1) / layout.chunks
    return min(kept, float(micro_batches))


def memory_parts(
    job: Job,
    layout: Layout,
    cluster: ClusterSpec,
    constants: Constants,
    software: Software,
    memo: Memo | None = None,
) -> MemoryParts:
    """Bytes of the rank that needs most. Legal layouts only: what is illegal is said by ``listing``.

    ``memo``: of layouts of this job on this cluster, with these constants and this program.
    """
    return fullest_stage(job, layout, constants, software, memo)[1]


def fullest_stage(
    job: Job, layout: Layout, constants: Constants, software: Software, memo: Memo | None = None
) -> tuple[int, MemoryParts]:
    """The stage of which a rank needs most, the first of them, and its bytes."""
    stages, memo = layout.pp, memo or Memo()
    counts = layers_of_stages(job.model, stages, software)
    pieces = layout.tp, layout.cp, layout.micro_batch, layout.sequence_parallel, layout.recompute
    layer_bytes, again_bytes, handed, logits = memo.get(
        ("activations", *pieces, stages > 1), lambda: _activations(job, layout, software)
    )
    in_all = layout.num_micro_batches(job.batch)
    axes = layout.tp, layout.cp, stages, layout.dp, layout.ep, layout.etp
    shared = layout.sharding, layout.shard_size, layout.offload
    every = memo.get(("states", *axes, *shared), lambda: _states_of_stages(job, layout, software, counts))
    most, kept_bytes, fullest = -1.0, 0.0, every[0]
    for one in every:
        stage, layers, _, held = one
        kept = in_flight(layout, stage, in_all) * (layers * layer_bytes + handed) + again_bytes
        total = held + kept + (logits if stage == stages - 1 else 0.0)
        if total > most:
            most, fullest, kept_bytes = total, one, kept
    stage, _, states, _ = fullest
    reserve_bytes = constants.reserve_bytes + (software.buffer_bytes if layout.sharding in (1, 2) else 0.0)
    return stage, MemoryParts(*states, kept_bytes, logits if stage == stages - 1 else 0.0, reserve_bytes)


def _activations(job: Job, layout: Layout, software: Software) -> tuple[float, float, float, float]:
    """Of a micro-batch: a layer's, what the one that computes needs besides, what a stage hands on, and logits."""
    return (
        layer_activation_bytes(job.model, layout, job.seq, software),
        again_layer_bytes(job, layout, software) + gathered_bytes(job, layout, software),
        handed_bytes(job, layout),
        _logits_bytes(job, layout, software),
    )


def _states_of_stages(
    job: Job, layout: Layout, software: Software, counts: Sequence[int]
) -> list[tuple[int, int, tuple[float, float, float], float]]:
    """Of each stage that may be fullest: which, its layers, the bytes of its states, and their sum."""
    found = []
    for stage in _stages_that_may_be_fullest(counts):
        numbers = stage_parameters(job.model, layout, counts[stage], tables_of(job.model, stage, layout.pp))
        states = _states(job.model, layout, software, numbers, counts[stage])
        found.append((stage, counts[stage], states, sum(states)))
    return found


def _stages_that_may_be_fullest(layers: Sequence[int]) -> list[int]:
    """The first keeps most micro-batches, the last has the logits; the second counts where it has more layers."""
    last = len(layers) - 1
    if last == 0:
        return [0]
    return [0, 1, last] if last > 1 and layers[1] > layers[0] else [0, last]


def _states(
    model: Decoder, layout: Layout, software: Software, numbers: float, layers: int
) -> tuple[float, float, float]:
    """Weights, gradients and optimizer: each shared out from its stage of sharding on, experts among their copies."""
    share = share_of(numbers, expert_parameters(model, layout, layers), layout)
    of_weights, of_gradients, of_optimizer = (share if layout.sharding >= stage else numbers for stage in (3, 2, 1))
    weights = WEIGHT_BYTES * of_weights
    if layout.sharding == 3 and layers:
        whole = 0.0 if expert_copies(layout) > 1 else expert_parameters(model, layout, 1)  # is there already
        weights += WEIGHT_BYTES * GATHERED_LAYERS * (stage_parameters(model, layout, 1, 0) - whole)
        weights += (WEIGHT_BYTES + software.reduce_bytes) * stage_parameters(model, layout, 0, 1)  # and its gradient
    optimizer = 0.0 if layout.offload else OPTIMIZER_BYTES * of_optimizer
    return weights, software.gradient_bytes * of_gradients, optimizer


def handed_bytes(job: Job, layout: Layout) -> float:
    """What a stage of a pipeline keeps of each micro-batch to receive it and to hand it on."""
    if layout.pp == 1:
        return 0.0
    rows = layout.micro_batch * job.seq / layout.cp
    return _PIPELINE_BYTES * rows * job.model.hidden / (layout.tp if layout.sequence_parallel else 1)


def again_layer_bytes(job: Job, layout: Layout, software: Software) -> float:
    """With full recomputation the inside of one layer comes back during its backward pass."""
    if layout.recompute != "full":
        return 0.0
    inside = Layout(
        tp=layout.tp,
        cp=layout.cp,
        micro_batch=layout.micro_batch,
        sequence_parallel=layout.sequence_parallel,
    )
    return layer_activation_bytes(job.model, inside, job.seq, software)


def gathered_bytes(job: Job, layout: Layout, software: Software) -> float:
    """Whole tensors of the layer that computes, which sequence parallelism gathers or is about to share out."""
    if not layout.sequence_parallel:
        return 0.0
    return software.gathered_buffers * 2 * layout.micro_batch * job.seq / layout.cp * job.model.hidden


def _logits_bytes(job: Job, layout: Layout, software: Software) -> float:
    return software.logit_bytes * layout.micro_batch * job.seq / layout.cp * job.model.vocab / layout.tp
