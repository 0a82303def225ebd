"""The same settings for torchtitan, as a part of its TOML file; on its command line they are --parallelism.NAME VALUE.

Names are those of v0.2.2 (February 2026), the last release with TOML. v0.3.0 is configured by Python alone, with the
same names of sizes and degrees; the main branch has others for sizes of batches. A note says which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.output.exporters.typed import Typed

__all__ = ["torchtitan"]

_VERSION = "v0.2.2 (February 2026)"
_STAGES_BY_DEFAULT = 2  # that a rank has of an interleaved schedule, unless told how many layers a stage has


def torchtitan(job: Job, layout: Layout, cluster: ClusterSpec) -> Typed:
    """Its sections [training], [parallelism] and [activation_checkpoint], or why it has none.

    The model is one of its own by name.
    """
    if missing := tuple(_missing(layout)):
        return Typed("torchtitan", "", missing, _VERSION)
    sections: dict[str, dict[str, object]] = {
        "training": _training(job, layout, cluster),
        "parallelism": _parallelism(job, layout),
        "activation_checkpoint": {"mode": layout.recompute},
    }
    lines = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{name} = {_toml(value)}" for name, value in values.items()), ""]
    return Typed("torchtitan", "\n".join(lines).rstrip(), tuple(_notes(job, layout)), _VERSION)


def _missing(layout: Layout) -> Iterator[str]:
    """Its experts are spread over the ranks that share states out; on the main branch over the tensor axis too."""
    ranks = _shard_degree(layout) * layout.cp
    if layout.etp:
        yield from _missing_meshes(layout, ranks)
        return
    if layout.ep > 1 and (ranks % layout.ep or layout.ep % layout.cp):
        yield (
            f"It shares out experts among the {ranks} ranks that shard the states: ep must divide {ranks} and be a "
            f"multiple of cp={layout.cp}. Here ep is {layout.ep}."
        )


def _missing_meshes(layout: Layout, ranks: int) -> Iterator[str]:
    """Experts on a mesh of their own: cut as all else is, or not at all, and then the tensor axis lends its ranks."""
    if layout.ep == 1:
        yield f"It gives experts a mesh of their own only with ep above 1. Here etp is {layout.etp} and ep is 1."
    elif layout.etp not in (1, layout.tp):
        yield (
            f"It cuts experts like all other weights, or not at all: etp is 1 or tp={layout.tp}. Here it is "
            f"{layout.etp}."
        )
    else:
        lent = layout.cp * (1 if layout.etp == layout.tp else layout.tp)
        ranks *= lent // layout.cp
        if ranks % layout.ep or layout.ep % lent:
            yield (
                f"It shares out experts among {ranks} ranks: ep must divide {ranks} and be a multiple of {lent}. Here "
                f"ep is {layout.ep}."
            )


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def _training(job: Job, layout: Layout, cluster: ClusterSpec) -> dict[str, object]:
    """With a pipeline all micro-batches of a step go through it at once; without one they follow each other."""
    local = job.batch // layout.dp if layout.pp > 1 else layout.micro_batch
    found: dict[str, object] = {
        "seq_len": job.seq,
        "local_batch_size": local,
        "global_batch_size": job.batch,
    }
    if not cluster.has_bfloat16:
        found["mixed_precision_param"] = "float32"
    return found | ({"enable_cpu_offload": True} if layout.offload else {})


def _parallelism(job: Job, layout: Layout) -> dict[str, object]:
    shard = _shard_degree(layout)
    found: dict[str, object] = {
        "data_parallel_replicate_degree": layout.dp // shard,
        "data_parallel_shard_degree": shard,
        "tensor_parallel_degree": layout.tp,
        "context_parallel_degree": layout.cp,
        "pipeline_parallel_degree": layout.pp,
    }
    if layout.ep > 1:
        found["expert_parallel_degree"] = layout.ep
        found |= {"expert_tensor_parallel_degree": layout.etp or layout.tp} if layout.tp > 1 else {}
    if layout.sharding == 3 and layout.pp > 1:
        found["fsdp_reshard_after_forward"] = "always"
    elif layout.sharding in (1, 2):
        found["fsdp_reshard_after_forward"] = "never"
    if layout.pp > 1:
        found["pipeline_parallel_schedule"] = "Interleaved1F1B" if layout.chunks > 1 else "1F1B"
        found["pipeline_parallel_microbatch_size"] = layout.micro_batch
        if layout.chunks not in (1, _STAGES_BY_DEFAULT) and (size := _layers_per_stage(job, layout)):
            found["pipeline_parallel_layers_per_stage"] = size
    return found


def _shard_degree(layout: Layout) -> int:
    """Its sharded ranks are those of this axis and of the context axis together."""
    if not layout.sharding:
        return 1
    return max(1, layout.shards // layout.cp)


def _layers_per_stage(job: Job, layout: Layout) -> int | None:
    """Layers a stage, where its rounding gives the stages that are wanted: the two ends count as a layer each."""
    stages, layers = layout.pp * layout.chunks, job.model.layers + 2
    size = math.ceil(layers / stages)
    return size if math.ceil(layers / size) == stages else None


def _notes(job: Job, layout: Layout) -> list[str]:
    notes = []
    if layout.sharding in (1, 2):
        notes.append(
            f'It has no zero{layout.sharding}: fsdp_reshard_after_forward = "never" is the nearest. Weights are '
            "gathered once a step and stay whole until backward is over, and gradients and states are shared out."
        )
    if layout.sharding == 0 and layout.cp > 1:
        notes.append("With a context axis it shards weights along that axis. The plan keeps copies there.")
    if layout.offload:
        notes.append(
            "enable_cpu_offload also keeps weights and gradients on the host, and needs sharding: it is slower than "
            "planned."
        )
    if layout.tp > 1 and not layout.sequence_parallel:
        notes.append("With a tensor axis it also cuts the sequence. A newer version has a setting against that.")
    if layout.ep > 1 and layout.tp > 1 and layout.etp != 1:
        notes.append(
            "A version without expert_tensor_parallel_degree does not cut experts: its expert axis takes in the tensor "
            "axis."
        )
    if layout.recompute == "selective":
        notes.append('Versions up to 2025 also need selective_ac_option = "op", which recomputes every second product.')
    if layout.chunks not in (1, _STAGES_BY_DEFAULT) and _layers_per_stage(job, layout) is None:
        notes.append(
            f"No equal number of layers a stage cuts {job.model.layers} layers into {layout.pp * layout.chunks} "
            "stages: name the modules of each stage."
        )
    notes.append(_since(job, layout))
    notes.append("[model] names one of torchtitan's own models. The number of machines goes to torchrun.")
    return notes


def _since(job: Job, layout: Layout) -> str:
    """The same by the names of later versions, where they are others."""
    sequences = layout.micro_batch * job.seq
    recompute = {"none": "no activation_checkpoint", "selective": "SelectiveAC.Config()", "full": "FullAC.Config()"}
    again = recompute[layout.recompute]
    pipeline = f", num_pp_microbatches={layout.num_micro_batches(job.batch)}" if layout.pp > 1 else ""
    return (
        "v0.3.0 (September 2026) takes no TOML: a function of its config registry (--module, --config) sets these "
        f"names and {again}. It has no expert_tensor_parallel_degree. Its main branch of August 2026 counts tokens: "
        f"max_context_length={job.seq}, num_tokens_per_microbatch_per_dp_rank={sequences}, "
        f"num_tokens_per_train_step={job.tokens}{pipeline}."
    )
