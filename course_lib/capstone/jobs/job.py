"""A job: a model that no rank has room for, nodes with slow links between them, and a budget of time."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, at_least
from course_lib.capstone.jobs.levels import ALL_YOURS, LEVELS, draw
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.cost.single_device.architectures import transformer_parameters
from course_lib.cost.single_device.model_state import model_state
from course_lib.layouts.link import Link
from course_lib.meter.units import bytes_text, time_text

__all__ = ["CapstoneJob", "job_for"]


@checked
@dataclass(frozen=True, kw_only=True, repr=False)
class CapstoneJob:
    """What a learner is given.

    ``memory_bytes``: the most that a rank may hold at any moment of a step: weights, gradients, optimizer states,
    activations and whatever else lives there. ``budget_s``: the longest step, of what is paced and shaped: what the
    machine takes besides, for small arithmetic and for others who use it, does not count.
    """

    level: int
    seed: int
    job: ScaledJob
    ranks: int
    nodes: int
    memory_bytes: int
    budget_s: float
    batch_seed: int | None = None  # of the batch; None: the job's seed. At level 4 each attempt draws one

    def __post_init__(self) -> None:
        at_least(1, ranks=self.ranks, nodes=self.nodes, memory_bytes=self.memory_bytes)
        above_zero(budget_s=self.budget_s)

    @property
    def state_bytes(self) -> int:
        """Weights, gradients and optimizer states (AdamW) of the whole model: what one rank would hold."""
        return model_state(sum(transformer_parameters(self.job.config))).total

    @property
    def row_s(self) -> float:
        """What one sequence computes in one block, forward; backward takes twice as long."""
        return self.job.forward_s / (self.job.config.num_layers * self.job.batch_size)

    @property
    def is_all_yours(self) -> bool:
        """Whether the strategies of a run have to be the learner's own."""
        return self.level == ALL_YOURS

    @property
    def name(self) -> str:
        return f"level {self.level}, seed {self.seed}"

    def __str__(self) -> str:
        job, config, nodes = self.job, self.job.config, self.job.nodes
        rows = {
            "model": f"{config.num_layers} layers, width {config.width}, {config.num_heads} heads, vocabulary "
            f"{config.vocab_size}; float32, AdamW: {bytes_text(self.state_bytes)} of states",
            "batch": f"{job.batch_size} sequences of {config.context_length} tokens",
            "computing": f"{time_text(3 * job.forward_s)} on one rank, a third of it forward (paced)",
            "ranks": f"{self.ranks}, on {self.nodes} nodes of {self.ranks // self.nodes}",
            "links": f"within a node {_link(nodes.within)}; between nodes {_link(nodes.between)}, for each rank",
            "memory": f"{bytes_text(self.memory_bytes)} on a rank ({self.memory_bytes:,} bytes), for states, "
            "activations and all else",
            "budget": f"{time_text(self.budget_s)} a step, for paced computing and shaped links",
        }
        return "\n".join([self.name, *(f"  {name:<10} {about}" for name, about in rows.items())])

    __repr__ = __str__


@checked
def job_for(level: int, seed: int) -> CapstoneJob:
    """The job of a level, 1 to 4; every seed gives another one, and the same seed the same.

    ``ValueError`` for a level that is not there, and for a seed below 0.
    """
    at_least(0, seed=seed)
    if level not in LEVELS:
        raise ValueError(
            f"level={level!r} is none of the levels 1 to {ALL_YOURS}; the nearest is {min(max(level, 1), ALL_YOURS)}"
        )
    drawn = draw(level, seed)
    return CapstoneJob(
        level=level,
        seed=seed,
        job=copy.deepcopy(drawn.job),  # whoever changes theirs changes no other's
        ranks=LEVELS[level].ranks,
        nodes=LEVELS[level].nodes,
        memory_bytes=drawn.memory_bytes,
        budget_s=drawn.budget_s,
    )


def _link(link: Link) -> str:
    latency = f"{time_text(link.latency_s)} a message" if link.latency_s else "no latency"
    return f"{link.bandwidth_bytes_per_s / 1e6:g} MB/s and {latency}"
