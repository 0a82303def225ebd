"""Lines for the course's own programs, ``train_ddp``, ``train_fsdp`` and ``train_mesh``, with flags that they have.

Each does a part of what a layout can ask. What it cannot is said, and then there is no line.
"""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.output.exporters.typed import Typed

__all__ = ["course_lines"]

_RELATIVE = (
    "It trains the course's transformer on bytes, with these numbers of layers, channels and heads. Its MLP is four "
    "times as wide as the model. Each head has keys of its own, and weights and states are float32. So time and "
    "memory differ from the plan."
)
_WEIGHTS_TOO = "The plan has zero{}; it shards the weights too (zero3): less memory, more messages."
_NO_FLOAT16 = (
    "It has no float16, whose gradients need a scaler, and these GPUs have no bfloat16. So it computes in float32, "
    "slower and in more memory than planned."
)
_WHOLE_BLOCKS = "The plan recomputes every second product; it recomputes whole blocks: slower, in less memory."


def course_lines(job: Job, layout: Layout, cluster: ClusterSpec) -> list[Typed]:
    """A line for each program, or why there is none."""
    return [_ddp(job, layout, cluster), _fsdp(job, layout, cluster), _mesh(job, layout, cluster)]


def _ddp(job: Job, layout: Layout, cluster: ClusterSpec) -> Typed:
    missing = [*_axes_beyond(layout, ()), *_never(layout)]
    missing += ["does not shard: every rank keeps all states"] if layout.sharding else []
    missing += ["has no recomputation"] if layout.recompute != "none" else []
    flags = f"--batch-size {job.batch} --accumulate {_accumulate(job, layout)}{_bf16(cluster)}"
    notes = [
        "It trains a ResNet, and shares out the batch in the same way: --batch-size counts images.",
        *_precision(cluster),
    ]
    return _typed("train_ddp", missing, _start(layout, cluster), flags, notes)


def _fsdp(job: Job, layout: Layout, cluster: ClusterSpec) -> Typed:
    missing = [*_axes_beyond(layout, ()), *_never(layout)]
    if layout.sharding == 0 and layout.dp > 1:
        missing.append("always shards all states; train_ddp and train_mesh keep copies")
    if layout.shard_size:
        missing.append("shards among all ranks; for hybrid sharding take train_mesh")
    flags = f"{_sizes(job)} --accumulate {_accumulate(job, layout)}{_bf16(cluster)}{_recompute(layout)}"
    notes = [_RELATIVE, *_nearest(layout), *_precision(cluster)]
    return _typed("train_fsdp", missing, _start(layout, cluster), flags, notes)


def _mesh(job: Job, layout: Layout, cluster: ClusterSpec) -> Typed:
    missing = [*_axes_beyond(layout, ("tp", "pp")), *_never(layout)]
    count = _accumulate(job, layout)
    if layout.chunks > 1:
        missing.append("runs 1F1B with one stage a rank, and no interleaved schedule")
    if layout.tp > 1 and job.seq % layout.tp:
        missing.append(f"cuts the sequence too, and {layout.tp} does not divide {job.seq}")
    if count < layout.pp:
        missing.append(
            f"needs at least as many micro-batches as stages. {count} is fewer than {layout.pp}, so give a batch of "
            f"at least {layout.pp * layout.dp * layout.micro_batch}"
        )
    shard = layout.shards if layout.sharding else 1
    axes = f"--dp {layout.dp // shard} --shard {shard} --pp {layout.pp} --tp {layout.tp}"
    peak = f" --precision bf16{_recompute(layout)} --peak-tflops {cluster.peak_flops_per_s / 1e12:g}"
    flags = f"{axes} {_sizes(job)} --accumulate {count}{peak if cluster.has_bfloat16 else _recompute(layout)}"
    notes = [_RELATIVE, *_nearest(layout), *_precision(cluster)]
    if layout.pp > 1 and layout.sharding:
        notes.append(
            "In a pipeline it keeps weights unsharded from their first use to the end of the step: more memory, fewer "
            "messages."
        )
    return _typed("train_mesh", missing, _start(layout, cluster), flags, notes)


# -- what they cannot do, or do another way -------------------------------------------------------------------------


def _axes_beyond(layout: Layout, known: tuple[str, ...]) -> Iterator[str]:
    for name, what in (
        ("tp", "tensor"),
        ("pp", "pipeline"),
        ("cp", "context"),
        ("ep", "expert"),
    ):
        if getattr(layout, name) > 1 and name not in known:
            yield f"has no {what} axis ({name}={getattr(layout, name)})"
    if layout.etp:
        yield f"has no separate mesh for experts (etp={layout.etp})"


def _never(layout: Layout) -> Iterator[str]:
    if layout.offload:
        yield "keeps optimizer states on the GPU"
    if layout.tp > 1 and not layout.sequence_parallel:
        yield "always cuts the sequence beside the tensor axis"


def _nearest(layout: Layout) -> Iterator[str]:
    """Notes on what is done another way than planned."""
    if layout.sharding in (1, 2):
        yield _WEIGHTS_TOO.format(layout.sharding)
    if layout.recompute == "selective":
        yield _WHOLE_BLOCKS


# -- pieces of a line -----------------------------------------------------------------------------------------------


def _typed(program: str, missing: list[str], start: str, flags: str, notes: list[str]) -> Typed:
    if missing:
        return Typed(program, "", tuple(f"It {one}." for one in missing))
    return Typed(program, f"{start} -m {program} {flags}", tuple(notes))


def _start(layout: Layout, cluster: ClusterSpec) -> str:
    """What starts the ranks: as many as the layout has, by node."""
    if layout.gpus == 1:
        return "python"
    if layout.gpus <= cluster.node_size:
        return f"torchrun --standalone --nproc-per-node {layout.gpus}"
    return (
        f"torchrun --nnodes {layout.gpus // cluster.node_size} --nproc-per-node {cluster.node_size} "
        "--rdzv-backend c10d --rdzv-endpoint HOST:PORT"
    )


def _sizes(job: Job) -> str:
    model = job.model
    return (
        f"--layers {model.layers} --width {model.hidden} --heads {model.heads} --context {job.seq} "
        f"--batch-size {job.batch}"
    )


def _bf16(cluster: ClusterSpec) -> str:
    return " --bf16" if cluster.has_bfloat16 else ""


def _precision(cluster: ClusterSpec) -> list[str]:
    return [] if cluster.has_bfloat16 else [_NO_FLOAT16]


def _accumulate(job: Job, layout: Layout) -> int:
    return layout.num_micro_batches(job.batch)


def _recompute(layout: Layout) -> str:
    return "" if layout.recompute == "none" else " --recompute"
