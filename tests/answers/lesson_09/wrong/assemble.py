"""09.assemble: wrong answers that cost too much; and all of them, by the mistake that each makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from answers.lesson_09.wrong.assemble_values import (
    AsksTheLastStage,
    Assembled,
    AveragesAlongDataAlone,
    ByArithmetic,
    ByTheLibrary,
    CountsCopies,
    CutsByAllRanks,
    DealsToAll,
    DividesByAll,
    DividesGradients,
    GivesNone,
    NoShards,
    OwnLoss,
    PipelineOfAll,
    PlainLoss,
    ShardsFirst,
    ShardsOverAll,
    SinglePrecision,
    SwapsAxes,
    WeighsSlices,
)
from torch import Tensor, nn

from course_lib.models import Transformer, next_token_loss
from course_lib.parallel.pipeline import Pipeline
from course_lib.schedules import one_f_one_b


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


EXERCISE = "09.assemble"
EXAMPLES: dict[str, Any] = {
    "splits-among-all-ranks": CutsByAllRanks,
    "other-axis": SwapsAxes,
    "pipeline-of-all-ranks": PipelineOfAll,
    "sharded-first": ShardsFirst,
    "plain-loss": PlainLoss,
    "shards-among-all-ranks": ShardsOverAll,
    "deals-to-every-rank": DealsToAll,
    "calls-with-a-loss-alone": AsksTheLastStage,
    "stages-disagree": WeighsSlices,
    "none-before-the-last": GivesNone,
    "zero-before-the-last": AveragesAlongDataAlone,
    "own-share": OwnLoss,
    "counts-copies": CountsCopies,
    "divides-by-all": DividesByAll,
    "by-arithmetic": ByArithmetic,
    "same-samples": NoDeal,
    "keeps-slices": KeepsSlices,
    "keeps-layers": KeepsLayers,
    "uneven-stages": UnevenStages,
    "keeps-stages": KeepsStages,
    "few-micro-batches": FewMicroBatches,
    "single-precision": SinglePrecision,
    "shards-nothing": NoShards,
    "averages-again": DividesGradients,
}


FORBIDDEN = ByTheLibrary
