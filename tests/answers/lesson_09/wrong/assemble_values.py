"""09.assemble: wrong answers that give wrong values, or end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.models import Transformer, next_token_loss
from course_lib.parallel.mesh import MeshGroups, OnMesh
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.sharded import FullySharded
from course_lib.parallel.tensor import split_transformer, vocab_parallel_cross_entropy
from course_lib.schedules import one_f_one_b


class Assembled:
    """A right one, in methods that the wrong ones replace."""

    tensor_axis, data_axis = "tp", "dp_shard"
    pipeline: Any

    def __init__(self, me: Rank, groups: MeshGroups, model: Transformer) -> None:
        self.me, self.groups, self.mesh = me, groups, groups.mesh
        self.vocab_size = model.config.vocab_size
        self.build(model, split_evenly(parameter_costs(model), self.mesh.size("pp")))

    def build(self, model: Transformer, stages: Sequence[range]) -> None:
        self.split(model)
        self.pipe(cut(model, stages))

    def split(self, model: Transformer) -> None:
        split_transformer(self.me, model, group=self.tensor_group())

    def pipe(self, stages: Sequence[nn.Module]) -> None:
        schedule = one_f_one_b(len(stages), 2 * len(stages))
        options: dict[str, Any] = {"ranks": self.ranks(), "wrap": self.shard}
        self.pipeline = Pipeline(self.me, stages, schedule, self.loss_of, **options)

    def tensor_group(self) -> dist.ProcessGroup | None:
        return self.groups.group(self.tensor_axis)

    def ranks(self) -> Sequence[int] | None:
        return self.mesh.group(self.me.rank, "pp")

    def shard(self, stage: nn.Module) -> nn.Module:
        return FullySharded(self.me, stage, group=self.groups.group(self.data_axis))

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        group, size = self.tensor_group(), self.vocab_size
        return vocab_parallel_cross_entropy(self.me, logits, targets, vocab_size=size, group=group)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.pipeline.parameters())

    def share(self, batch: Tensor) -> Tensor:
        place = self.groups.coordinates[self.data_axis]
        return batch.chunk(self.mesh.size(self.data_axis))[place]

    def step(self, tokens: Tensor, targets: Tensor) -> Any:
        return self.mean(self.pipeline.step(self.share(tokens), self.share(targets)))

    def summed(self, loss: Tensor | None) -> Tensor:
        """Over all ranks."""
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        if loss is not None:
            total += loss.detach()
        dist.all_reduce(total)
        return total

    def mean(self, loss: Tensor | None) -> Any:
        return self.summed(loss) / self.mesh.size("tp", "dp_shard")


class DealsToAll(Assembled):
    """Every rank has rows of its own."""

    def share(self, batch: Tensor) -> Tensor:
        return batch.chunk(self.me.world_size)[self.me.rank]


class ByArithmetic(Assembled):
    """As if ``tp`` were the fastest axis, always."""

    def share(self, batch: Tensor) -> Tensor:
        n = self.mesh.size("dp_shard")
        return batch.chunk(n)[self.me.rank // self.mesh.size("tp") % n]


class CutsByAllRanks(Assembled):
    def tensor_group(self) -> dist.ProcessGroup | None:
        return None


class ShardsOverAll(Assembled):
    def shard(self, stage: nn.Module) -> nn.Module:
        return FullySharded(self.me, stage)


class PipelineOfAll(Assembled):
    def ranks(self) -> Sequence[int] | None:
        return None


class SwapsAxes(Assembled):
    """Consistent, and along the wrong axes."""

    tensor_axis, data_axis = "dp_shard", "tp"


class ShardsFirst(Assembled):
    """From the outside in: rows first, and then slices of the rows."""

    def build(self, model: Transformer, stages: Sequence[range]) -> None:
        FullySharded(self.me, model, list(model.blocks), group=self.groups.group("dp_shard"))
        super().build(model, stages)

    def shard(self, stage: nn.Module) -> nn.Module:
        return stage


class WeighsSlices(Assembled):
    """Cut into stages by what this rank's slices weigh."""

    def build(self, model: Transformer, stages: Sequence[range]) -> None:
        self.split(model)
        self.pipe(cut(model, split_evenly(parameter_costs(model), len(stages))))


class SinglePrecision(Assembled):
    def summed(self, loss: Tensor | None) -> Tensor:
        total = torch.zeros((), device=self.me.device)
        if loss is not None:
            total += loss.detach()
        dist.all_reduce(total)
        return total


class NoShards(Assembled):
    """Each share trains a model of its own."""

    def shard(self, stage: nn.Module) -> nn.Module:
        return stage


class PlainLoss(Assembled):
    """As if logits were whole."""

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        return next_token_loss(logits, targets)


class DividesGradients(Assembled):
    """The mean over shares, once more than ``FullySharded`` takes it."""

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        return super().loss_of(logits, targets) / self.mesh.size("dp_shard")

    def mean(self, loss: Tensor | None) -> Any:
        return self.summed(loss) / self.mesh.size("tp")


class AsksTheLastStage(Assembled):
    """Whoever has no loss stays away from the sum."""

    def mean(self, loss: Tensor | None) -> Any:
        if loss is None:
            return torch.zeros(())
        return self.summed(loss) / self.mesh.size("tp", "dp_shard")


class GivesNone(Assembled):
    def mean(self, loss: Tensor | None) -> Any:
        return loss


class OwnLoss(Assembled):
    """Along the pipeline alone: each share's own mean."""

    def mean(self, loss: Tensor | None) -> Any:
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        if loss is not None:
            total += loss.detach()
        dist.all_reduce(total, group=self.groups.group("pp"))
        return total


class CountsCopies(Assembled):
    """All ranks of ``tp`` have the same loss, and each is added."""

    def mean(self, loss: Tensor | None) -> Any:
        return self.summed(loss) / self.mesh.size("dp_shard")


class AveragesAlongDataAlone(Assembled):
    """Right where there is one stage; else the stages before the last have 0."""

    def mean(self, loss: Tensor | None) -> Any:
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        if loss is not None:
            total += loss.detach()
        dist.all_reduce(total, group=self.groups.group("dp_shard"))
        return total / self.mesh.size("dp_shard")


class DividesByAll(Assembled):
    """As if every rank had a loss."""

    def mean(self, loss: Tensor | None) -> Any:
        return self.summed(loss) / self.me.world_size


class ByTheLibrary:
    """The course's own, all of it."""

    def __init__(self, me: Rank, groups: MeshGroups, model: Transformer) -> None:
        self.model = OnMesh(me, groups.mesh, model)

    def parameters(self) -> list[nn.Parameter]:
        return self.model.parameters()

    def step(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return self.model.step(*self.model.data.deal(tokens, targets))
