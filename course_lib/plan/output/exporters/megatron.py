"""The same settings for Megatron-LM's ``pretrain_gpt.py`` (Megatron-Core), as arguments of August 2026."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.model import Decoder
from course_lib.plan.inputs.stages import output_layers, stage_layers
from course_lib.plan.output.exporters.typed import Typed

__all__ = ["megatron"]

_WIDTH = 100
_VERSION = "(main, August 2026)"
_STRATEGY = {2: "optim_grads", 3: "optim_grads_params"}


def megatron(job: Job, layout: Layout, cluster: ClusterSpec) -> Typed:
    """Arguments of the axes, of the step and of the model's sizes, a line for each kind."""
    kinds = [_axes(layout), _data(layout), _step(job, layout, cluster), _sizes(job.model), _details(job)]
    lines = [line for kind in kinds for line in textwrap.wrap(" ".join(kind), _WIDTH, break_on_hyphens=False)]
    notes = [note for note in (*_notes(layout), _about_stages(job, layout)) if note]
    text = "\n".join([*_environment(layout), " \\\n".join(lines)])
    return Typed("megatron", text, tuple(notes), _VERSION)


def _environment(layout: Layout) -> Iterator[str]:
    """What it asserts at its start on GPUs before Blackwell; with its own FSDP it asserts the contrary."""
    if layout.sharding in _STRATEGY:
        yield "unset CUDA_DEVICE_MAX_CONNECTIONS"
    elif layout.tp > 1 or layout.cp > 1:
        yield "export CUDA_DEVICE_MAX_CONNECTIONS=1"


def _axes(layout: Layout) -> Iterator[str]:
    yield f"--tensor-model-parallel-size {layout.tp}"
    if layout.sequence_parallel:
        yield "--sequence-parallel"
    yield f"--pipeline-model-parallel-size {layout.pp}"
    if layout.chunks > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {layout.chunks}"
    yield f"--context-parallel-size {layout.cp}"
    if layout.ep > 1:
        yield f"--expert-model-parallel-size {layout.ep}"
    if layout.etp:
        yield f"--expert-tensor-parallel-size {layout.etp}"


def _data(layout: Layout) -> Iterator[str]:
    """Stage 1 is its distributed optimizer; 2 and 3 are its own fully sharded data parallelism."""
    if layout.sharding:
        yield "--use-distributed-optimizer"
    if layout.sharding in _STRATEGY:
        yield f"--use-megatron-fsdp --data-parallel-sharding-strategy {_STRATEGY[layout.sharding]}"
        yield "--no-gradient-accumulation-fusion --ckpt-format fsdp_dtensor"
    if layout.shard_size:
        yield f"--num-distributed-optimizer-instances {layout.dp * layout.cp // layout.shard_size}"
    if layout.dp > 1:
        yield "--overlap-grad-reduce" + (" --overlap-param-gather" if layout.sharding else "")
    if layout.offload:
        yield "--optimizer-cpu-offload --use-precision-aware-optimizer"


def _step(job: Job, layout: Layout, cluster: ClusterSpec) -> Iterator[str]:
    dtype = "--bf16" if cluster.has_bfloat16 else "--fp16"  # with a scaler of its own
    yield f"--micro-batch-size {layout.micro_batch} --global-batch-size {job.batch} {dtype}"
    if layout.recompute == "selective":
        yield "--recompute-granularity selective"
    elif layout.recompute == "full":
        yield "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"


def _sizes(model: Decoder) -> Iterator[str]:
    yield f"--num-layers {model.layers} --hidden-size {model.hidden} --ffn-hidden-size {model.ffn}"
    yield f"--num-attention-heads {model.heads}"
    if model.kv_heads not in (0, model.heads):
        yield f"--group-query-attention --num-query-groups {model.kv_heads}"
    if model.head_dim:
        yield f"--kv-channels {model.head_dim}"
    if model.experts > 1:
        yield f"--num-experts {model.experts} --moe-router-topk {model.experts_per_token}"
        yield "--moe-token-dispatcher-type alltoall --moe-grouped-gemm"  # else one expert's product after another


def _details(job: Job) -> Iterator[str]:
    model = job.model
    yield f"--seq-length {job.seq} --max-position-embeddings {max(job.seq, model.positions)}"
    if model.gated:
        yield "--swiglu"
    if model.norm_parameters == 1:
        yield "--normalization RMSNorm"
    if not model.positions:
        yield "--position-embedding-type rope"
    if not model.bias:
        yield "--disable-bias-linear"
    yield "--attention-dropout 0.0 --hidden-dropout 0.0"  # 0.1 by default, and the masks would take memory
    if not model.tied:
        yield "--untie-embeddings-and-output-weights"


def _notes(layout: Layout) -> Iterator[str]:
    if layout.sharding in _STRATEGY and layout.pp > 1:
        yield "Ask your version whether --use-megatron-fsdp works beside a pipeline."
    if layout.recompute == "selective":
        yield (
            "By default its selective recomputation covers attention's scores, which a fused kernel never keeps. The "
            "plan recomputes every second product, as torchtitan does. So it needs more memory than planned, unless "
            "--recompute-modules names more, such as layernorm and mlp."
        )


def _about_stages(job: Job, layout: Layout) -> str:
    """Where stages have unequal numbers of layers, and how its arguments say so."""
    if layout.pp == 1:
        return ""
    model = job.model
    counts = stage_layers(model.layers, layout.pp, output_layers(model), True)
    if len(set(counts)) == 1:
        return ""
    *others, last = counts
    if layout.chunks == 1 and len(set(others)) == 1:
        return (
            f"The planned times are for stages with {others[0]} layers and a last stage with {last} and the output: "
            f"--decoder-last-pipeline-num-layers {last}."
        )
    even = "" if model.layers % (layout.pp * layout.chunks) else "; without arguments all stages have equally many"
    return (
        f"The planned times are for stages with {', '.join(map(str, counts))} layers, and the output on the last "
        f"one{even}."
    )
