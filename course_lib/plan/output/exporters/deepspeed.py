"""The same settings for DeepSpeed, as its JSON of version 0.19.8; notes say what stands in the program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.output.exporters.typed import Typed

__all__ = ["deepspeed"]

_VERSION = "0.19.8 (October 2026)"
_PRESETS = {"mixtral": "mixtral"}  # of AutoEP, by how names of our models begin


def deepspeed(job: Job, layout: Layout, cluster: ClusterSpec) -> Typed:
    """Its JSON, or why it has none: no ring for a sequence, no ZeRO 2 and 3 beside a pipeline."""
    missing = list(_missing(job, layout))
    if missing:
        return Typed("deepspeed", "", tuple(missing), _VERSION)
    settings: dict[str, Any] = {
        "train_batch_size": job.batch,
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": layout.num_micro_batches(job.batch),
        "gradient_clipping": 1.0,
        "bf16" if cluster.has_bfloat16 else "fp16": {"enabled": True},  # fp16 with a scaler of its own
        "zero_optimization": _zero(layout),
    }
    if layout.tp > 1:
        settings["tensor_parallel"] = {"autotp_size": layout.tp}
    if layout.ep > 1 and (preset := _preset(job, layout)):
        settings["expert_parallel"] = {"enabled": True, "autoep_size": layout.ep, "preset_model": preset}
    return Typed("deepspeed", json.dumps(settings, indent=2), tuple(_notes(job, layout)), _VERSION)


def _preset(job: Job, layout: Layout) -> str:
    """What AutoEP calls the model; empty for one that it does not know, and beside what it does not take."""
    name = next((preset for start, preset in _PRESETS.items() if job.model.name.startswith(start)), "")
    return "" if layout.tp > 1 or layout.shard_size or layout.pp > 1 else name


def _zero(layout: Layout) -> dict[str, Any]:
    found: dict[str, Any] = {"stage": layout.sharding}
    if layout.sharding:
        found["overlap_comm"] = True
    if layout.shard_size:
        found["zero_hpz_partition_size"] = layout.shard_size
    if layout.offload:
        found["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return found


def _missing(job: Job, layout: Layout) -> Iterator[str]:
    if layout.cp > 1:
        yield f"It cuts a sequence by all-to-all over the heads (Ulysses), and has no ring for cp={layout.cp}."
    if layout.pp > 1 and layout.sharding > 1:
        yield "Its pipelines take ZeRO 0 and 1 only: each micro-batch adds to the gradients, so they stay unsharded."
    if layout.pp > 1 and layout.chunks > 1:
        yield "Its pipelines run 1F1B with one stage a rank."
    if layout.etp and layout.tp * layout.cp > 1:
        yield f"It shares experts out along data ranks, and has no mesh of their own for etp={layout.etp}."
    elif layout.etp > 1:
        yield f"It cannot cut experts while dense layers stay uncut, as etp={layout.etp} would."
    if layout.ep > 1 and layout.sharding == 3 and not _preset(job, layout):
        yield (
            "Its experts take ZeRO 3 only by AutoEP: for models that AutoEP knows, and with no other axis than data "
            "ranks."
        )
    if layout.offload and not layout.sharding:
        yield "It offloads optimizer states only with ZeRO 1 or higher."


def _notes(job: Job, layout: Layout) -> Iterator[str]:
    if layout.pp > 1:
        yield f"Your program builds the pipeline: PipelineModule(layers, num_stages={layout.pp})."
    if layout.ep > 1 and _preset(job, layout):
        yield (
            "expert_parallel (AutoEP, since June 2026) takes models of the transformers library, and ZeRO 3 since "
            "26 June."
        )
    elif layout.ep > 1:
        yield f"Your program builds the experts: deepspeed.moe.layer.MoE(..., ep_size={layout.ep})."
    if layout.recompute != "none":
        yield (
            "The model itself recomputes: deepspeed.checkpointing.checkpoint, or gradient_checkpointing with "
            "transformers. Both recompute whole layers."
        )
    if layout.tp > 1:
        yield (
            "autotp_size cuts those models of the transformers library that it knows. Between cut products every "
            "rank keeps all positions."
        )
    if layout.tp > 1 and layout.sharding == 3:
        yield "autotp_size takes ZeRO 3 since 0.19.4 (August 2026); older versions take 0 to 2."
    if layout.shard_size:
        yield (
            f"zero_hpz_partition_size keeps a second copy of the weights among {layout.shard_size} neighbours; states "
            "and gradients are shared out among all ranks, not among those neighbours."
        )
