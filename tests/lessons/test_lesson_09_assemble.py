"""The judge of 09.assemble against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from answers.lesson_09.wrong.assemble_values import Assembled

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.parallel.sharded import FullySharded

pytestmark = [
    pytest.mark.xdist_group("exercises"),
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]


class OtherRowsThanTargets(Assembled):
    def step(self, tokens, targets):
        return self.mean(self.pipeline.step(self.share(tokens), targets[: len(self.share(tokens))]))


class RowsInTurn(Assembled):
    """Dealt like cards; the batch's mean and its gradient are the same: right."""

    def share(self, batch):
        return batch[self.groups.coordinates["dp_shard"] :: self.mesh.size("dp_shard")]


class TwiceBackwards(Assembled):
    def step(self, tokens, targets):
        super().step(tokens, targets)
        return super().step(tokens, targets)


class NeverShardsOnTheFirstStage(Assembled):
    def shard(self, stage):
        is_first = self.groups.coordinates["pp"] == 0
        return stage if is_first and self.mesh.size("pp") > 1 else super().shard(stage)


class AllRanksSum(Assembled):
    def mean(self, loss):
        return self.summed(loss)


class LossOfOneTensorRank(Assembled):
    """Counts the first of each tensor group, and divides as if it had counted all."""

    def mean(self, loss):
        counts = loss is not None and self.groups.coordinates["tp"] == 0
        return self.summed(loss if counts else None) / self.mesh.size("tp", "dp_shard")


class LastStageOnly(Assembled):
    """The loss is broadcast from the job's last rank: its own share's."""

    def mean(self, loss):
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        if loss is not None:
            total += loss.detach()
        dist.broadcast(total, src=self.me.world_size - 1)
        return total


class ShardsAlongTensor(Assembled):
    """Rows shared out along tp, of slices that differ."""

    def shard(self, stage):
        return FullySharded(self.me, stage, group=self.groups.group("tp"))


class KeepsGradients(Assembled):
    """Of the step before, too."""

    kept: list = []  # noqa: RUF012

    def step(self, tokens, targets):
        loss = super().step(tokens, targets)
        for parameter, old in zip(self.parameters(), list(self.kept) or self.parameters(), strict=False):
            if self.kept:
                parameter.grad += old
        self.kept[:] = [parameter.grad.clone() for parameter in self.parameters()]
        return loss


class CoordinatesOfTensor(Assembled):
    """The rows go by the place along tp."""

    def share(self, batch):
        n = self.mesh.size("dp_shard")
        return batch.chunk(n)[self.groups.coordinates["tp"] % n]


class SumOnRank0(Assembled):
    def summed(self, loss):
        total = torch.zeros((), dtype=torch.float64)
        if loss is not None:
            total += loss.detach()
        dist.reduce(total, 0)
        return total


class GivesNothing(Assembled):
    def step(self, tokens, targets):
        super().step(tokens, targets)


class Words(Assembled):
    def mean(self, loss):
        return f"{float(self.summed(loss)):.3f}"


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (OtherRowsThanTargets, None, "the loss of the first step: expected"),
        (NeverShardsOnTheFirstStage, None, "the loss of the first step is right; of later ones"),
        (LossOfOneTensorRank, "divides-by-all", "the loss of the first step: expected"),
        pytest.param(TwiceBackwards, "averages-again", "of later ones", marks=pytest.mark.long),
        pytest.param(AllRanksSum, "counts-copies", "the loss of the first", marks=pytest.mark.long),
        pytest.param(LastStageOnly, None, "the loss of the first step", marks=pytest.mark.long),
        pytest.param(ShardsAlongTensor, "shards-among-all-ranks", "", marks=pytest.mark.long),
        pytest.param(KeepsGradients, None, "of later ones", marks=pytest.mark.long),
        pytest.param(CoordinatesOfTensor, None, "the loss of the first step", marks=pytest.mark.long),
        pytest.param(SumOnRank0, None, "the loss of the first step", marks=pytest.mark.long),
        pytest.param(GivesNothing, None, "`step` gave nothing (`None`)", marks=pytest.mark.long),
        pytest.param(Words, None, "a number is to come from `step`, and what came is '", marks=pytest.mark.long),
    ],
)
def test_wrong_assemblies_are_turned_away(answer, mistake, words):
    seen = judged(exercises.exercise("09.assemble"), answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in f"{seen.message} {seen.evidence}", seen


@pytest.mark.long
def test_rows_dealt_in_turn_are_right():
    seen = judged(exercises.exercise("09.assemble"), RowsInTurn)
    assert seen.passed, seen


def test_an_object_is_no_class():
    seen = judged(exercises.exercise("09.assemble"), 3)
    assert "Give the class itself" in seen.message, seen
