"""Answers to 09.assemble whose losses are right, and which keep, send or wait for more than they should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_09.assemble.wrong_answers import Assembled
from course_lib.models import Transformer, next_token_loss
from course_lib.parallel.pipeline import Pipeline
from course_lib.schedules import one_f_one_b

__all__ = ["FewMicroBatches", "KeepsLayers", "KeepsSlices", "KeepsStages", "NoDeal", "UnevenStages"]


class NoDeal(Assembled):
    def share(self, batch: Tensor) -> Tensor:
        return batch


class KeepsSlices(Assembled):
    """Replicas in the place of shards: the numbers are right, and every rank keeps its slices whole."""

    def shard(self, stage: nn.Module) -> nn.Module:
        return stage

    def step(self, tokens: Tensor, targets: Tensor) -> Any:
        loss = super().step(tokens, targets)
        for parameter in self.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad, group=self.groups.group("dp_shard"))
            parameter.grad /= self.mesh.size("dp_shard")
        return loss


class KeepsLayers(Assembled):
    """Nothing along tp: whole layers on every rank, and the loss of whole logits."""

    def split(self, model: Transformer) -> None:
        pass

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        return next_token_loss(logits, targets)


class KeepsStages(Assembled):
    """This rank's stage learns, and all others stay."""

    def build(self, model: Transformer, stages: Sequence[range]) -> None:
        self.model = model
        super().build(model, stages)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())


class UnevenStages(Assembled):
    """Of two stages, the last one is the head alone."""

    def build(self, model: Transformer, stages: Sequence[range]) -> None:
        num_pieces = stages[-1].stop
        uneven = [range(num_pieces - 1), range(num_pieces - 1, num_pieces)] if len(stages) > 1 else stages
        super().build(model, uneven)


class FewMicroBatches(Assembled):
    """As many as stages: each waits for most of the step."""

    def pipe(self, stages: Sequence[nn.Module]) -> None:
        schedule = one_f_one_b(len(stages), len(stages))
        options: dict[str, Any] = {"ranks": self.ranks(), "wrap": self.shard}
        self.pipeline = Pipeline(self.me, stages, schedule, self.loss_of, **options)
