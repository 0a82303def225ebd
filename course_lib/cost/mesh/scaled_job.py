"""A job scaled down: a small transformer, nodes of a few ranks, slow links, and how long its computing should take.

Data, and what is expected of it: memory first, then time, once in closed form (``layout_step.py``) and once played
through (``mesh_time.py``). ``course_lib.parallel.mesh.run_plan`` runs the same job for real.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, at_least, not_negative
from course_lib.cost.collectives.network import Network
from course_lib.cost.mesh.layout_step import Cut, NodeShape, StepCompute, layout_step_s
from course_lib.cost.mesh.link_bytes import MeshStep
from course_lib.cost.mesh.mesh_state import mesh_state
from course_lib.cost.mesh.mesh_time import MeshStepTime, mesh_step_time
from course_lib.cost.single_device.architectures import TransformerSizes, transformer_parameters
from course_lib.layouts.mesh import COMBINED_AXES, Mesh

__all__ = ["ScaledJob"]

_NUMBER_BYTES = 4  # float32


@checked
@dataclass(frozen=True, kw_only=True)
class ScaledJob:
    """A training step of ``batch_size`` sequences of ``config.context_length`` tokens, on nodes joined by slow links.

    ``forward_s``: what one device would compute in the forward pass of the whole batch; backward takes twice as long.
    ``memory_bytes``: what a rank has room for, of weights, gradients and optimizer states (AdamW).
    """

    config: TransformerSizes
    batch_size: int
    forward_s: float
    nodes: NodeShape
    memory_bytes: float = float("inf")

    def __post_init__(self) -> None:
        at_least(1, batch_size=self.batch_size)
        not_negative(forward_s=self.forward_s)
        above_zero(memory_bytes=self.memory_bytes)

    @property
    def work(self) -> StepCompute:
        """The same for a formula."""
        config = self.config
        tokens = self.batch_size * config.context_length
        gradients = sum(transformer_parameters(config)) * _NUMBER_BYTES
        return StepCompute(
            config.num_layers,
            self.forward_s / config.num_layers,
            tokens * config.width * _NUMBER_BYTES,
            gradients,
        )

    def cut(self, mesh: Mesh) -> Cut:
        """A mesh for a formula: with as many micro-batches as ``OnMesh`` takes, and all gradients in one bucket.

        Shards count as replicas. ``ValueError`` for axes in another order than the formula's: pp, dp, tp.
        """
        here = [axis for axis in mesh.axes if mesh.size(axis) > 1]
        usual = sorted(here, key=COMBINED_AXES.index)
        if here != usual:
            nearest = " ".join(f"{axis}={mesh.size(axis)}" for axis in usual)
            raise ValueError(
                f"{mesh} has its axes in another order than the formula, where pp is outermost and tp innermost. Use "
                f"{nearest}, or play the step."
            )
        schedule = self.step(mesh).schedule
        return Cut(
            mesh.size("pp"),
            mesh.size("dp_replicate", "dp_shard"),
            mesh.size("tp"),
            schedule.num_micro_batches if schedule else 1,
        )

    def step(self, mesh: Mesh) -> MeshStep:
        """The step on a mesh. ``ValueError`` where the two do not fit together."""
        return MeshStep(config=self.config, mesh=mesh, batch_size=self.batch_size)

    def formula_s(self, mesh: Mesh) -> float:
        """Seconds of a step in closed form."""
        return layout_step_s(self.work, self.cut(mesh), self.nodes)

    def played(self, mesh: Mesh) -> MeshStepTime:
        """Seconds of a step, every message of every rank played through."""
        return mesh_step_time(
            self.step(mesh),
            self.network(mesh.num_ranks),
            forward_s=self.forward_s / mesh.num_ranks,
            backward_s=2 * self.forward_s / mesh.num_ranks,
        )

    def network(self, num_ranks: int) -> Network:
        """The links of so many ranks; each has a port of its own to the other nodes."""
        per_node = self.nodes.ranks_per_node
        if num_ranks <= per_node:
            return Network.uniform(num_ranks, self.nodes.within)
        if num_ranks % per_node:
            raise ValueError(
                f"{num_ranks} ranks do not fill nodes of {per_node}; the nearest that do are "
                f"{round(num_ranks / per_node) * per_node}."
            )
        return Network.nodes(
            num_ranks // per_node,
            per_node,
            intra=self.nodes.within,
            inter=self.nodes.between,
            ports_per_node=per_node,
        )

    def state_bytes(self, mesh: Mesh) -> int:
        """Weights, gradients and optimizer states of the fullest rank."""
        return max(mesh_state(self.config, mesh, rank).total for rank in range(mesh.num_ranks))

    def fits(self, mesh: Mesh) -> bool:
        """Whether every rank has room for its states."""
        return self.state_bytes(mesh) <= self.memory_bytes
