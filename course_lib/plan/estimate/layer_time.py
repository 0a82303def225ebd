"""How long one layer's forward pass takes for one micro-batch, by part; and the output matrix with its loss.

Shapes: rows are the tokens of a micro-batch on a rank; h is the hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from course_lib.plan.estimate.links import Group
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.software import Software

__all__ = [
    "SCORE_BYTES",
    "LayerPass",
    "MatrixWork",
    "attention_flops_per_s",
    "element_bytes",
    "expert_calls",
    "layer_pass",
    "output_s",
    "product_work",
    "tensor_call_s",
    "tensor_calls",
]

# Of an unfused score, forward: written by the product, read (below the diagonal) and written by the softmax, read and
# written by dropout with a mask of one byte, read by the next product.
SCORE_BYTES = 12
_MERGE_BYTES = 14  # of a query's number at each step of a ring: a new part, and float32 sums read and written
_EAGER_NORM_BYTES = 32  # of a norm's number, beside what one kernel moves: to float32, squared, scaled, back, weighed
_EAGER_ROTATION_BYTES = 16  # of a number of queries and keys, beside 4: to float32 and back, and the product
_GATE_BYTES = 4  # of a gated MLP's number, where the activation alone is a kernel: its result, written and read


@dataclass(frozen=True)
class LayerPass:
    """Seconds of one forward pass of one layer over one micro-batch."""

    products_s: float
    attention_s: float  # what selective recomputation does again
    elements_s: float
    tensor_s: float
    context_s: float
    expert_s: float
    scores_s: float = 0.0  # of attention, what unfused scores take to be moved

    @property
    def compute_s(self) -> float:
        """What the GPU computes: products, attention, and what goes element by element."""
        return self.products_s + self.attention_s + self.elements_s


class MatrixWork(NamedTuple):
    """Arithmetic of matrices in FLOPs, and the bytes that they read and write, 2 for each number."""

    flops: float
    moved_bytes: float

    @classmethod
    def of(cls, *sizes: tuple[float, float, float]) -> MatrixWork:
        """Of products of (rows, inner) and (inner, outer)."""
        return cls(
            sum(2 * rows * inner * outer for rows, inner, outer in sizes),
            sum(2 * (rows * inner + inner * outer + rows * outer) for rows, inner, outer in sizes),
        )

    def seconds(self, cluster: ClusterSpec, constants: Constants, flops_per_s: float) -> float:
        """Arithmetic at a share of ``flops_per_s``, then the bytes at a share of the memory's bandwidth."""
        arithmetic_s = self.flops / (flops_per_s * constants.matmul_share)
        return arithmetic_s + self.moved_bytes / (cluster.memory_bandwidth_bytes_per_s * constants.memory_share)


def layer_pass(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software) -> LayerPass:
    """Matrices, attention, what goes element by element, and the collectives of the tensor, context and expert axes."""
    rows = layout.micro_batch * job.seq / layout.cp
    rate = cluster.product_flops_per_s or cluster.peak_flops_per_s
    attention_s = _attention_s(job, layout, cluster, constants, software, rows)
    memory = cluster.memory_bandwidth_bytes_per_s * constants.memory_share
    scores = 0.0 if software.fused_attention else rows * job.seq * job.model.heads / layout.tp
    moved_bytes = element_bytes(job, layout, fused=software.fused_elements, fused_gate=software.fused_gate)
    return LayerPass(
        products_s=product_work(job, layout).seconds(cluster, constants, rate),
        attention_s=attention_s,
        elements_s=moved_bytes / memory,
        tensor_s=tensor_calls(layout) * tensor_call_s(job, layout, cluster, constants),
        context_s=_context_s(job, layout, cluster, constants, attention_s / max(1, layout.cp)),
        expert_s=_expert_s(job, layout, cluster, constants),
        scores_s=SCORE_BYTES * scores / memory,
    )


def product_work(job: Job, layout: Layout) -> MatrixWork:
    """A layer's four products on a rank: queries, keys and values; attention's output; the MLP in and out."""
    model, tp = job.model, layout.tp
    rows = layout.micro_batch * job.seq / layout.cp
    met, cut = rows * model.experts_per_token, tp
    if layout.etp:  # each rank has its own positions' rows, and the ranks that cut an expert put theirs together
        met, cut = met * layout.etp / tp, layout.etp
    return MatrixWork.of(
        (rows, model.hidden, (model.q_width + 2 * model.kv_width) / tp),
        (rows, model.q_width / tp, model.hidden),
        (met, model.hidden, (2 if model.gated else 1) * model.ffn / cut),
        (met, model.ffn / cut, model.hidden),
    )


def element_bytes(job: Job, layout: Layout, *, fused: bool = True, fused_gate: bool = True) -> float:
    """What a layer reads and writes element by element: norms, residual sums, dropout; rotations, activations.

    Without rotations the forward pass puts heads together, and the backward pass puts the gradients of queries, keys
    and values together (Megatron-LM's ``ParallelAttention``, 2021): a third of that for each of three passes.
    """
    model, tp = job.model, layout.tp
    rows = layout.micro_batch * job.seq / layout.cp
    met = rows * model.experts_per_token
    outside = rows * model.hidden / (tp if layout.sequence_parallel else 1)
    heads = 2 * model.q_width + 4 * model.kv_width  # rotated there and back, and taken apart
    if not model.gated:
        heads = (2 * model.q_width + heads) / 3
    inside = rows * heads / tp
    inside += met * (3 if model.gated else 2) * model.ffn / tp
    eager = 0.0 if fused else 2 * _EAGER_NORM_BYTES * outside
    if not fused and model.gated:
        eager += _EAGER_ROTATION_BYTES * rows * (model.q_width + model.kv_width) / tp
    if not fused_gate and model.gated:
        eager += _GATE_BYTES * met * model.ffn / tp
    return 2 * (12 * outside + inside) + eager


def output_s(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software) -> float:
    """The output matrix and the loss of one micro-batch, forward and backward, in seconds."""
    rows, logits = layout.micro_batch * job.seq / layout.cp, job.model.vocab / layout.tp
    memory = cluster.memory_bandwidth_bytes_per_s * constants.memory_share
    matrix_s = MatrixWork.of((rows, job.model.hidden, logits)).seconds(cluster, constants, cluster.peak_flops_per_s)
    return 3 * matrix_s + software.loss_bytes * rows * logits / memory


def attention_flops_per_s(cluster: ClusterSpec, constants: Constants, software: Software) -> float:
    """What attention computes with: by the program's kernels, else FlashAttention-2's, else at the matrices' share.

    Unfused attention is made of matrices.
    """
    fused = (software.attention_share or cluster.attention_share) if software.fused_attention else 0.0
    return cluster.peak_flops_per_s * (fused or constants.matmul_share)


def _attention_s(
    job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software, rows: float
) -> float:
    """Fused attention skips what is masked; unfused attention computes all scores, and moves them."""
    flops = rows * job.model.attention_flops(job.seq, causal=software.fused_attention) / layout.tp
    arithmetic_s = flops / attention_flops_per_s(cluster, constants, software)
    if software.fused_attention:
        return arithmetic_s
    moved_bytes = SCORE_BYTES * rows * job.seq * job.model.heads / layout.tp
    return arithmetic_s + moved_bytes / (cluster.memory_bandwidth_bytes_per_s * constants.memory_share)


def _context_s(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, step_s: float) -> float:
    """What a ring adds. Keys and values go on while attention computes a step of ``step_s``; what takes longer shows.

    Of what hides a part shows too, as it does on the data axis. After each step the sums of queries are put together.
    """
    if layout.cp == 1:
        return 0.0
    group = Group.of(cluster, constants, layout.cp, layout.tp)
    rows = layout.micro_batch * job.seq / layout.cp
    shared = min(layout.tp, job.model.kv_heads or job.model.heads)
    block_bytes = 2 * 2 * rows * job.model.kv_width / shared
    send_s = group.send_s(block_bytes)
    shown_s = send_s - constants.hidden_share * min(send_s, step_s)
    merged_bytes = _MERGE_BYTES * rows * job.model.q_width / layout.tp
    merge_s = merged_bytes / (cluster.memory_bandwidth_bytes_per_s * constants.memory_share)
    return (layout.cp - 1) * (shown_s + merge_s)


def _expert_s(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants) -> float:
    """Rows go to their experts and come back: two all-to-alls."""
    if layout.etp:
        return sum(call.total_s for call in expert_calls(job, layout, cluster, constants))
    if layout.ep == 1:
        return 0.0
    group = Group.of(cluster, constants, layout.ep, layout.tp * layout.cp)
    rows = layout.micro_batch * job.seq / layout.cp * job.model.experts_per_token
    return 2 * group.all_to_all_s(2 * rows * job.model.hidden / layout.tp)


class ExpertCall(NamedTuple):
    """A collective that brings rows to experts on a mesh of their own, or back; two of it in a forward pass."""

    operation: str  # "all-to-all", or "all-gather" with the reduce-scatter that is its way back
    size_bytes: float
    group: Group

    @property
    def call_s(self) -> float:
        """One way."""
        return self.group.all_gather_s(self.size_bytes)  # each of them sends (n-1)/n of the buffer

    @property
    def total_s(self) -> float:
        """Both ways."""
        return 2 * self.call_s


def expert_calls(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants) -> tuple[ExpertCall, ...]:
    """Of a layer's forward pass with ``etp``: rows go to the ranks of their experts, and there to all that cut these.

    A rank sends the rows of its own positions, one for each expert that a token meets, 2 bytes a number.
    """
    rows = layout.micro_batch * job.seq / (layout.cp * layout.tp) * job.model.experts_per_token
    sent_bytes = 2 * rows * job.model.hidden
    calls = (
        ExpertCall("all-to-all", sent_bytes, Group.of(cluster, constants, layout.ep, layout.etp)),
        ExpertCall("all-gather", sent_bytes * layout.etp, Group.of(cluster, constants, layout.etp, 1)),
    )
    return tuple(call for call in calls if call.group.size > 1)


def tensor_calls(layout: Layout) -> int:
    """Sums of the tensor axis in a layer's forward pass: attention's, and the MLP's where that axis cuts it."""
    return 1 if layout.etp else 2


def tensor_call_s(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants) -> float:
    """One of them, in seconds: an all-reduce of (rows, h), or with sequence parallelism its two halves.

    A reduce-scatter and an all-gather send what a ring's all-reduce sends. Over nodes they take longer than NCCL's
    tree.
    """
    group = Group.of(cluster, constants, layout.tp, 1)
    size_bytes = 2 * layout.micro_batch * job.seq / layout.cp * job.model.hidden
    return 2 * group.all_gather_s(size_bytes) if layout.sequence_parallel else group.all_reduce_s(size_bytes)
