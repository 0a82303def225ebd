"""What a data axis has to send in a step, in the sizes from which lesson 11b builds its term of the formula by hand.

``dp_comm_time.py`` is the planner's own term. Here are the numbers that it is made of, for dense models whose states
are shared out by stage 0, 1 or 3 among the whole axis.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.plan.estimate.dp_comm_time import DataAxis, data_axis
from course_lib.plan.estimate.links import Group
from course_lib.plan.estimate.memory import stage_parameters
from course_lib.plan.estimate.step_time import layer_step, step_parts
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.software import Software
from course_lib.plan.inputs.stages import layers_of_stages

__all__ = ["DataSizes", "data_sizes", "waits_s"]

_BACKWARD = 2 / 3  # of a micro-batch's computing


@dataclass(frozen=True)
class DataSizes:
    """What the ranks of ``group`` send in a step along the data axis, and behind what it may hide.

    ``numbers`` are the weights of a rank while all of them are whole, 2 bytes each; a gradient takes
    ``gradient_bytes``. With sharding 0 and 1 gradients go in ``buckets`` equal calls, with sharding 3 everything in
    ``calls`` equal ones, a layer each or a tensor each. There a micro-batch gathers all weights ``gathers`` times.
    ``ahead``: weights are gathered before they are needed, so they can hide as gradients do.
    """

    sharding: int
    numbers: float
    gradient_bytes: int
    buckets: float
    calls: int
    gathers: int
    micro_batches: float
    ahead: bool
    computing_s: float  # of one micro-batch, all layers, forward and backward
    group: Group
    hiding_share: float  # by the constants: of what could hide
    rest_s: float  # of the step, without what the data axis sends


@checked
def data_sizes(job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software) -> DataSizes:
    """The sizes for a layout. ValueError for experts, sharding 2, hybrid sharding, and for a data axis of one rank.

    And for a program that gathers the weights of sharding 1 behind the next forward pass: it has two things to hide
    behind, and this term has one.
    """
    size = layout.dp * layout.cp
    if layout.sharding == 1 and (software.overlaps or software.gathers_ahead):
        raise ValueError(
            "This program gathers weights during the next forward pass. This term is for programs that gather them "
            "before it. The nearest is a program without overlaps and gathers_ahead."
        )
    if job.model.experts > 1 or layout.sharding == 2 or layout.shard_size or size == 1:
        raise ValueError(
            f"layout is {layout}. This term is for dense models with sharding 0, 1 or 3 on a data axis of two or more "
            "ranks. The nearest layout has one of these stages and shard_size=0."
        )
    counts = layers_of_stages(job.model, layout.pp, software)
    layers, layer_s = max(counts), layer_step(job, layout, cluster, constants, software).total_s
    micro_batches = max(1.0, job.batch / (layout.micro_batch * layout.dp))
    found: DataAxis = data_axis(job.model, layout, cluster, constants, software, layers, layer_s, micro_batches)
    numbers = stage_parameters(job.model, layout, layers, 1 if layout.pp > 1 or job.model.tied else 2)
    in_buckets = software.reduce_bytes * numbers / software.bucket_bytes if software.bucket_bytes else 1.0
    sent_s = found.exposed_s - found.copied_s
    return DataSizes(
        sharding=layout.sharding,
        numbers=numbers,
        gradient_bytes=software.reduce_bytes,
        buckets=max(1.0, in_buckets),
        calls=layers * software.sharded_calls_a_layer,
        gathers=3 if software.gathers_again and layout.recompute == "full" else 2,
        micro_batches=micro_batches,
        ahead=software.overlaps or (layout.sharding == 3 and software.prefetches),
        computing_s=layers * layer_s,
        group=Group.of(cluster, constants, size, layout.tp),
        hiding_share=found.hiding_share,
        rest_s=step_parts(job, layout, cluster, constants, software).total_s - sent_s,
    )


@checked
def waits_s(sizes: DataSizes, hidden: float) -> float:
    """Seconds that a step waits for its data axis, if the share ``hidden`` of what can hide does. ValueError beyond 1.

    The term of ``dp_comm_time.py``, without what is copied on the GPU itself.
    """
    if not 0 <= hidden <= 1:
        raise ValueError(f"hidden is {hidden:g}; it is a share from 0 to 1. The nearest is {min(max(hidden, 0), 1)}.")
    weight_bytes, gradient_bytes = 2 * sizes.numbers, sizes.gradient_bytes * sizes.numbers
    if sizes.sharding == 3:
        weights_s = sizes.gathers * sizes.group.all_gather_s(weight_bytes / sizes.calls)
        gradients_s = sizes.group.all_gather_s(gradient_bytes / sizes.calls)  # the same bytes the other way
        weights_s, gradients_s = (sizes.micro_batches * sizes.calls * one_s for one_s in (weights_s, gradients_s))
        window_s = sizes.micro_batches * sizes.computing_s
    else:
        call_s = sizes.group.all_reduce_s if sizes.sharding == 0 else sizes.group.all_gather_s
        gradients_s = sizes.buckets * call_s(gradient_bytes / sizes.buckets)
        weights_s = sizes.group.all_gather_s(weight_bytes) if sizes.sharding else 0.0
        window_s = _BACKWARD * sizes.computing_s
    return weights_s + gradients_s - hidden * min(gradients_s + sizes.ahead * weights_s, window_s)
