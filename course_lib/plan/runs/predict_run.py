"""What the planner says of a published run: the step's time by part, and the memory of its fullest rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

from course_lib.plan.estimate.memory import MemoryParts, memory_parts
from course_lib.plan.estimate.step_time import StepParts, step_parts
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.profiles import Profile
from course_lib.plan.runs.published import PublishedRun

__all__ = ["Prepared", "prepared"]

_MOST_IN_MICRO_BATCH = 16


@dataclass(frozen=True)
class Prepared:
    """A run with its profile, and the layouts that its source leaves open; one where it says all."""

    run: PublishedRun
    profile: Profile
    layouts: tuple[Layout, ...]

    def parts(self, constants: Constants) -> StepParts:
        """The step by part, of the fastest layout that is open."""
        cluster = self.profile.machines(self.run.gpus, self.run.node_size)
        software = self.profile.software(self.run.dtype)
        every = (step_parts(self.run.job, one, cluster, constants, software) for one in self.layouts)
        return min(every, key=lambda parts: parts.total_s)

    def step_s(self, constants: Constants) -> float:
        """The whole step, in seconds."""
        return self.parts(constants).total_s

    def memory(self, constants: Constants) -> MemoryParts:
        """Bytes of the fullest rank, of the first layout that is open."""
        cluster = self.profile.machines(self.run.gpus, self.run.node_size)
        software = self.profile.software(self.run.dtype)
        return memory_parts(self.run.job, self.layouts[0], cluster, constants, software)

    @property
    def one_share_s(self) -> float:
        """The step at the GPU's peak: FLOPs executed over all GPUs' rate. The null model divides it by one share."""
        flops = self.run.job.model.step_flops(self.run.job.seq, self.run.job.batch, recompute=self.run.layout.recompute)
        return flops / (self.run.gpus * self.profile.gpu.peak_flops_per_s)


def prepared(run: PublishedRun, profile: Profile) -> Prepared:
    """The run with its profile. A micro-batch that is not published is free, and with it a pipeline's chunks.

    The chunks are those of the profile where the owners tell them.

    Of these, those that fit are open; where none does, the run had a way to save memory that its source does not tell:
    the smallest micro-batch is taken then.
    """
    profile = profile.of_table(run.table)
    if run.has_micro_batch:
        return Prepared(run, profile, (run.layout,))
    layers = run.job.model.layers // run.layout.pp
    chunks = [profile.chunks if run.layout.pp > 1 and run.layout.chunks == 1 else run.layout.chunks]
    if run.layout.pp > 1 and chunks == [1]:
        chunks = [v for v in range(1, layers + 1) if profile.layers_by_cost or layers % v == 0]
    sequences = max(1, run.job.batch // run.layout.dp)
    sizes = [size for size in (1, 2, 4, 8, _MOST_IN_MICRO_BATCH) if sequences % size == 0]
    every = tuple(replace(run.layout, micro_batch=size, chunks=v) for size in sizes for v in chunks)
    cluster, software = profile.machines(run.gpus, run.node_size), profile.software(run.dtype)

    def fits(layout: Layout) -> bool:
        needed = memory_parts(run.job, layout, cluster, profile.constants, software)
        return needed.total_bytes <= cluster.memory_bytes

    return Prepared(run, profile, tuple(filter(fits, every)) or every[: len(chunks)])
