"""The course's own classes for builds from lesson 06 on, under the learner's names: ``courses.py`` has the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank

if TYPE_CHECKING:
    from course_lib.models.transformer import Transformer
    from course_lib.parallel.mesh.groups import MeshGroups
    from course_lib.plan.by_hand.inputs import Machines, PlannedJob, TimedRun
    from course_lib.plan.inputs.layout import Layout
    from course_lib.schedules.table import Schedule

__all__ = ["MyExperts", "MyJob", "MyMeshTrainer", "MyPipeline", "MyPlanner", "MyRingAttention", "MySplitTransformer"]


class MyPipeline:
    """Executes any schedule of the course: this rank's row of the table, with the messages that the table implies."""

    def __init__(
        self,
        me: Rank,
        stages: Mapping[int, nn.Module],
        schedule: Schedule,
        loss_of: Callable[[Tensor, Tensor], Tensor],
        room: Callable[[int, int], Tensor],
        ties: Sequence[Sequence[tuple[int, str]]] = (),
    ) -> None:
        from course_lib.parallel.pipeline.given_stages import GivenStages

        self.pipeline = GivenStages(me, stages, schedule, loss_of, room, ties)

    def step(self, inputs: Sequence[Tensor] | None = None, targets: Sequence[Tensor] | None = None) -> Tensor | None:
        """One batch, forward and backward. Its mean loss, (), on the rank of the last stage; None on the others."""
        return self.pipeline.step(inputs, targets)


class MySplitTransformer:
    """This rank's parts of a transformer that a group of ranks shares, cut by columns, rows and vocabulary."""

    def __init__(
        self, me: Rank, model: Transformer, group: dist.ProcessGroup | None = None, sequence: bool = False
    ) -> None:
        from course_lib.parallel.tensor.given_transformer import GivenTransformer

        self.split = GivenTransformer(me, model, group, sequence)
        self.parts = self.split.parts

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy, the same on all ranks, 0-d; tokens and targets are (B, T)."""
        return self.split.loss(tokens, targets)


class MyMeshTrainer:
    """Trains a transformer on a mesh of pp, dp_shard and tp as one process trains it, each rank with its part."""

    def __init__(
        self,
        me: Rank,
        groups: MeshGroups,
        model: Transformer,
        optimizer_class: Any,
        num_micro_batches: int = 2,
        **defaults: Any,
    ) -> None:
        from course_lib.parallel.mesh.mesh_trainer import MeshTrainer

        self.trainer = MeshTrainer(me, groups, model, optimizer_class, num_micro_batches, **defaults)
        self.parts = self.trainer.parts

    def step(self, tokens: Tensor, targets: Tensor, max_norm: float | None = None) -> tuple[float, float]:
        """One step on the whole batch, (B, T): its mean loss, and the norm of the whole gradient before the clip."""
        return self.trainer.step(tokens, targets, max_norm)

    def save(self, folder: str | Path) -> None:
        """Write a checkpoint of weights and states."""
        self.trainer.save(folder)

    def load(self, folder: str | Path) -> None:
        """Go on with a checkpoint of any mesh."""
        self.trainer.load(folder)


class MyJob:
    """Trains a model as one process would, and goes on where a job before it stopped, on any number of ranks."""

    def __init__(
        self,
        me: Rank,
        folder: str | Path,
        model: nn.Module,
        optimizer: Any,
        loss_of: Callable[[nn.Module, list[int], Any], Tensor],
        num_samples: int,
        batch_size: int,
        schedule: Any = None,
        seed: int = 0,
        every: int = 5,
    ) -> None:
        from course_lib.parallel.jobs import ResumableJob

        self.job = ResumableJob(me, folder, model, optimizer, loss_of, num_samples, batch_size, schedule, seed, every)

    def samples(self, step: int) -> list[int]:
        """This rank's samples of this step."""
        return self.job.samples(step)

    def run(self, until: int) -> list[float]:
        """Train up to step ``until``; the mean loss of each step."""
        return self.job.run(until)

    def save(self) -> None:
        """Write a checkpoint beside the others, and then remove all but the last two."""
        self.job.save()

    def resume(self) -> int:
        """Go on from the newest checkpoint that is whole; the step where that is."""
        return self.job.resume()


class MyRingAttention:
    """Attention of this rank's queries to the keys of all ranks of a group, which hold these ``positions`` each."""

    def __init__(
        self,
        me: Rank,
        positions: Sequence[Sequence[int]],
        causal: bool = False,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        from course_lib.layouts.document_cut import DocumentCut

        self.me, self.causal, self.group = me, causal, group
        self.cut = DocumentCut([sum(map(len, positions))], positions)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, H, T_r, K), (B, G, T_r, K) twice -> (B, H, T_r, K)."""
        from course_lib.parallel.context import ring_attention

        return ring_attention(self.me, q, k, v, self.cut, is_causal=self.causal, group=self.group)


class MyPlanner:
    """What layouts of a job need and take on machines, by formulas, and which of them fit."""

    def __init__(self, job: PlannedJob, machines: Machines) -> None:
        from course_lib.plan.by_hand.planner import Planner

        self.planner = Planner(job, machines)

    def memory(self, layout: Layout, stage: int) -> dict[str, float]:
        """Bytes of a rank of this stage, by part."""
        return self.planner.memory(layout, stage)

    def time(self, layout: Layout) -> dict[str, float]:
        """Seconds of a step, by part."""
        return self.planner.time(layout)

    def why_not(self, layout: Layout) -> str:
        """Why the layout cannot run; "" where it can."""
        return self.planner.why_not(layout)

    def plans(self) -> list[tuple[float, Layout]]:
        """Every layout that is legal and fits, with the seconds of its step, fastest first."""
        return self.planner.plans()

    def fit(self, runs: Sequence[TimedRun]) -> Machines:
        """The machines, with the share of the peak that these runs tell."""
        return self.planner.fit(runs)


class MyExperts(nn.Module):
    """Experts that the ranks of a group share out: this rank's tokens go to ``top_k`` of them, and come back."""

    def __init__(
        self,
        me: Rank,
        router: nn.Linear,
        experts: Sequence[nn.Module],
        top_k: int = 2,
        capacity_factor: float | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        from course_lib.parallel.experts import GivenExperts

        self.layer = GivenExperts(me, router, experts, top_k, capacity_factor, group)

    def forward(self, x: Tensor, balance: bool = False) -> Any:
        """(..., D) -> (..., D); with ``balance`` a pair, and the load-balancing loss, 0-d."""
        return self.layer(x, balance)
