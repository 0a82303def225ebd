"""The builds of the course, in the order of the lessons. A new one is a line here: docs/maintaining/add-a-build.md."""

from __future__ import annotations

from course_lib.learn.builds.build import Build

__all__ = ["BUILDS", "build_named", "build_of_step"]

BUILDS: tuple[Build, ...] = (
    Build(
        name="02.all_reduce",
        title="An all-reduce of any size, on any group",
        steps=("02.sum_values", "02.sum_bytes", "02.sum_memory", "02.sum_latency", "02.sum_groups"),
        entry="all_reduce",
        usable_from="02.sum_values",
    ),
    Build(
        name="03.data_parallel",
        title="DataParallel, whole",
        steps=("03.dp_values", "03.dp_gradients", "03.dp_cost", "03.dp_threads", "03.dp_awkward"),
        entry="MyDataParallel",
        usable_from="03.dp_gradients",
    ),
    Build(
        name="04.ddp",
        title="A DistributedDataParallel of your own",
        steps=("04.ddp_values", "04.ddp_bytes", "04.ddp_memory", "04.ddp_overlap", "04.ddp_awkward"),
        entry="MyDDP",
        usable_from="04.ddp_bytes",
    ),
    Build(
        name="05.zero",
        title="A sharded optimizer of your own",
        steps=("05.zero_values", "05.zero_bytes", "05.zero_memory", "05.zero_awkward"),
        entry="MyShardedOptimizer",
        usable_from="05.zero_bytes",
    ),
    Build(
        name="05.fsdp",
        title="A fully sharded wrapper of your own",
        steps=(
            "05.fsdp_values",
            "05.fsdp_bytes",
            "05.fsdp_memory",
            "05.fsdp_prefetch",
            "05.fsdp_tools",
            "05.fsdp_awkward",
        ),
        entry="MyFullySharded",
        usable_from="05.fsdp_memory",
    ),
    Build(
        name="07.pipe",
        title="A pipeline runtime of your own",
        steps=(
            "07.pipe_values",
            "07.pipe_messages",
            "07.pipe_memory",
            "07.pipe_chunks",
            "07.pipe_split",
            "07.pipe_awkward",
        ),
        entry="MyPipeline",
        usable_from="07.pipe_split",
    ),
    Build(
        name="08.split",
        title="A split transformer of your own",
        steps=(
            "08.split_values",
            "08.split_vocabulary",
            "08.split_messages",
            "08.split_memory",
            "08.split_sequence",
            "08.split_seeds",
            "08.split_awkward",
        ),
        entry="MySplitTransformer",
        usable_from="08.split_memory",
    ),
    Build(
        name="09.mesh",
        title="A training step on a mesh",
        steps=(
            "09.mesh_values",
            "09.mesh_stages",
            "09.mesh_shards",
            "09.mesh_messages",
            "09.mesh_norm",
            "09.mesh_checkpoint",
            "09.mesh_awkward",
        ),
        entry="MyMeshTrainer",
        usable_from="09.mesh_checkpoint",
    ),
    Build(
        name="10.ring",
        title="Ring attention of your own",
        steps=(
            "10.ring_values",
            "10.ring_backward",
            "10.ring_causal",
            "10.ring_messages",
            "10.ring_memory",
            "10.ring_hidden",
            "10.ring_awkward",
        ),
        entry="MyRingAttention",
        usable_from="10.ring_messages",
    ),
    Build(
        name="10.experts",
        title="A layer of experts of your own",
        steps=(
            "10.experts_values",
            "10.experts_backward",
            "10.experts_exchange",
            "10.experts_memory",
            "10.experts_capacity",
            "10.experts_balance",
            "10.experts_awkward",
        ),
        entry="MyExperts",
        usable_from="10.experts_balance",
    ),
    Build(
        name="11.planner",
        title="A planner of your own",
        steps=(
            "11.planner_states",
            "11.planner_memory",
            "11.planner_compute",
            "11.planner_links",
            "11.planner_layouts",
            "11.planner_runs",
            "11.planner_awkward",
        ),
        entry="MyPlanner",
        usable_from="11.planner_runs",
    ),
    Build(
        name="12.job",
        title="A job that outlives its ranks",
        steps=(
            "12.job_values",
            "12.job_samples",
            "12.job_checkpoint",
            "12.job_torn",
            "12.job_fewer",
            "12.job_cost",
            "12.job_awkward",
        ),
        entry="MyJob",
        usable_from="12.job_fewer",
    ),
)


def build_named(name: str) -> Build:
    """The build of this name. Raises ``ValueError`` with those that there are."""
    for build in BUILDS:
        if name == build.name:
            return build
    offers = ", ".join(build.name for build in BUILDS) or "none yet"
    raise ValueError(f"There is no build {name!r}; there is {offers}.")


def build_of_step(exercise: str) -> Build | None:
    """The build that has this exercise for a step; None for an exercise that stands alone."""
    return next((build for build in BUILDS if exercise in build.steps), None)
