"""Plans run for real: a scaled-down job on a mesh, its messages over shaped links, its computing paced.

What is real: ranks, process groups, every collective and message with its bytes, the order in which ranks wait for
each other, weights, gradients and optimizer states. What is not: the arithmetic of a large model is a wait, and the
links are shaped to the speeds that the job names. ``course_lib.cost.mesh.scaled_job.ScaledJob`` is such a job, and says
what to expect of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import nn

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.meter import Call, MemoryLedger, Span, Timeline
from course_lib.meter.communication.recorder import Recorder
from course_lib.models import TransformerConfig
from course_lib.parallel.mesh.on_mesh import OnMesh
from course_lib.parallel.mesh.paced_model import PacedTransformer

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["PlanRun", "regret", "run_plan"]

_STATES = ("parameter", "gradient", "optimizer state")


class JobNodes(Protocol):
    """Links within a node of so many ranks, and between two of them."""

    @property
    def ranks_per_node(self) -> int: ...
    @property
    def within(self) -> Link: ...
    @property
    def between(self) -> Link: ...


class ScaledDownJob(Protocol):
    """What is asked of a job; ``course_lib.cost.mesh.scaled_job.ScaledJob`` has it all."""

    @property
    def config(self) -> object: ...  # a TransformerConfig
    @property
    def batch_size(self) -> int: ...
    @property
    def forward_s(self) -> float: ...
    @property
    def nodes(self) -> JobNodes: ...


@dataclass(frozen=True)
class PlanRun:
    """What the steps of one plan took, and held."""

    mesh: Mesh
    steps_s: tuple[float, ...]  # of each step, the slowest rank
    state_bytes: int  # of the fullest rank, as the memory ledger saw it
    timeline: Timeline  # of the shortest step: paced computing, and communication by its axis

    @property
    def step_s(self) -> float:
        """The shortest of them: a busy machine makes steps longer, and a shaped link lets none be shorter."""
        return min(self.steps_s)

    @property
    def waited_s(self) -> dict[str, float]:
        """Seconds of the shortest step in which a rank communicates along an axis and does not compute.

        The mean over ranks, as ``MeshStepTime.waited_s``. "loss": for the mean of the losses, among all ranks; where an
        axis has all ranks, it is counted there.
        """
        axes = (*(axis for axis in self.mesh.axes if self.mesh.size(axis) > 1), "loss")
        return {axis: self.timeline.time_s(axis) / self.mesh.num_ranks for axis in axes}


def run_plan(cluster: Cluster, job: ScaledDownJob, mesh: Mesh, *, num_steps: int = 3) -> PlanRun:
    """Forward, backward and all that is sent, ``num_steps`` times after a first one that finds shapes and states.

    The optimizer's update is not timed: it sends nothing, and on a scaled-down model it is no time at all.
    ``RankError`` where a rank fails: also for a mesh of another number of ranks, or one that the job does not fit.
    """
    at_least(1, num_steps=num_steps)
    nodes = job.nodes
    links = Links.nodes(
        min(nodes.ranks_per_node, cluster.world_size),
        inside=nodes.within,
        across=nodes.between,
        ports_per_node=nodes.ranks_per_node,
    )
    with cluster.shaped(links=links):
        by_rank = list(cluster.call(_steps, (job, mesh, num_steps), show=False))
    slowest_s = tuple(max(times_s) for times_s in zip(*(rank.steps_s for rank in by_rank), strict=True))
    shortest = slowest_s.index(min(slowest_s))
    timeline = Timeline.join(rank.spans[shortest] for rank in by_rank)
    return PlanRun(mesh, slowest_s, max(rank.state_bytes for rank in by_rank), timeline)


@checked
def regret(times_s: Mapping[str, float], bet: str) -> float:
    """What a bet costs beside the best of the plans: 0 for the best one, 0.5 for a step half as long again.

    ``ValueError`` for a bet that is none of the plans.
    """
    if bet not in times_s:
        raise ValueError(f"the bet is {bet!r}, and the plans with a time are {', '.join(times_s) or 'none'}")
    best_s = min(times_s.values())
    return times_s[bet] / best_s - 1


def _row_s(job: ScaledDownJob, mesh: Mesh) -> float:
    """What a block on one rank computes for one sequence, in its forward pass."""
    assert isinstance(job.config, TransformerConfig)
    return job.forward_s / (job.config.num_layers * job.batch_size * mesh.size("tp"))


class _OnRank(NamedTuple):
    """What one rank tells of its steps."""

    steps_s: list[float]
    spans: list[list[Span]]  # of each step
    state_bytes: int


def _steps(me: Rank, job: ScaledDownJob, mesh: Mesh, num_steps: int) -> _OnRank:
    """On each rank: a first step, then those that are timed, each begun together."""
    config = job.config
    assert isinstance(config, TransformerConfig)
    torch.manual_seed(0)  # all ranks draw the same weights and the same batch
    plain = PacedTransformer(me, config, row_s=_row_s(job, mesh))
    model = OnMesh(me, mesh, plain)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(config.vocab_size, (job.batch_size, config.context_length + 1))
    mine = model.data.deal(tokens[:, :-1], tokens[:, 1:])
    steps_s, spans = [], []
    for _ in range(num_steps + 1):
        optimizer.zero_grad()
        dist.barrier()
        with Recorder(me.rank) as recorder:
            began_s = time.perf_counter()
            model.step(*mine)
            steps_s.append(time.perf_counter() - began_s)
        computing = [span for span in plain.timeline.spans if span.start_s >= began_s]
        spans.append(computing + _communication(mesh, me.rank, recorder.calls))
        optimizer.step()
    state_bytes = _held_bytes(model, optimizer)
    model.close()
    return _OnRank(steps_s[1:], spans[1:], state_bytes)


def _communication(mesh: Mesh, rank: int, calls: Iterable[Call]) -> list[Span]:
    """Each collective and message as a span with the name of its axis; a group of all ranks may be an axis, too."""
    axis_of = {mesh.group(rank, axis): axis for axis in mesh.axes if mesh.size(axis) > 1}
    named = ((call, "pp" if call.is_message else axis_of.get(call.group, "loss")) for call in calls)
    return [span for call, name in named if (span := call.span(name))]


def _held_bytes(model: OnMesh, optimizer: torch.optim.Optimizer) -> int:
    with MemoryLedger(nn.ModuleList(model.modules), optimizer) as ledger:
        held = ledger.now()
    return sum(held[kind] for kind in _STATES)
