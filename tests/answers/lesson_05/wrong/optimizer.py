"""05.optimizer: wrong answers that cost too much; and all of them, by the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from answers.lesson_05.wrong.optimizer_values import (
    Adam,
    AfreshEachStep,
    AveragesWeights,
    DividesByFour,
    DividesTwice,
    DropsTheRest,
    GathersFirst,
    GradientsOfRank0,
    LosesTheRate,
    NeedsToDivide,
    NeverGathers,
    NeverMoves,
    NotInARow,
    NotWaitedFor,
    OneTensorInAllPlaces,
    OwnGradients,
    OwnPartStays,
    PartsTurned,
    PilesUp,
    Sharded,
    Sums,
    Whole,
    packed,
)
from torch import Tensor, nn


class AllReduces(Sharded):
    """Right, for half as many bytes again."""

    def reduced(self, gradients: Tensor) -> Tensor:
        dist.all_reduce(gradients)
        return self.part_of(gradients) / self.me.world_size


class GathersGradients(Sharded):
    """Right, for far too many bytes."""

    def reduced(self, gradients: Tensor) -> Tensor:
        everything = [torch.empty_like(gradients) for _ in range(self.me.world_size)]
        dist.all_gather(everything, gradients)
        return self.part_of(torch.stack(everything).mean(dim=0)).clone()


class LikeDDP(Whole):
    """Right, with all states on every rank."""

    def step(self) -> None:
        for parameter in self.parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.me.world_size  # type: ignore[operator,assignment]
        super().step()


class RankZeroDoesAll(Whole):
    """Right: the gradients go to rank 0, and the weights come from there."""

    def step(self) -> None:
        for parameter in self.parameters:
            dist.reduce(parameter.grad, dst=0)  # type: ignore[arg-type]
        if self.me.rank == 0:
            for parameter in self.parameters:
                parameter.grad /= self.me.world_size  # type: ignore[operator,assignment]
            super().step()
        for parameter in self.parameters:
            dist.broadcast(parameter.data, src=0)


class KeepsTheGathered(Sharded):
    def gathered(self, own: Tensor) -> Tensor:
        self.row = super().gathered(own)
        return self.row


class KeepsMoreAndMore(Sharded):
    def start(self) -> None:
        super().start()
        self.seen: list[Tensor] = []

    def reduced(self, gradients: Tensor) -> Tensor:
        part = super().reduced(gradients)
        self.seen.append(part.clone())
        return part


class DealsOutTensors(Sharded):
    """Each tensor has one owner."""

    def start(self) -> None:
        mine = [p for number, p in enumerate(self.parameters) if self.owner(number) == self.me.rank]
        self.adamw = torch.optim.AdamW(mine, lr=self.lr) if mine else None

    def owner(self, number: int) -> int:
        return number % self.me.world_size

    def step(self) -> None:
        for number, parameter in enumerate(self.parameters):
            dist.reduce(parameter.grad, dst=self.owner(number))  # type: ignore[arg-type]
            parameter.grad /= self.me.world_size  # type: ignore[operator,assignment]
        if self.adamw is not None:
            self.adamw.step()
        for number, parameter in enumerate(self.parameters):
            dist.broadcast(parameter.data, src=self.owner(number))


class OnTheClass(Sharded):
    """Attributes of the class: of two objects, the second one's are in the place of the first one's."""

    def start(self) -> None:
        OnTheClass.own = nn.Parameter(self.part_of(packed(self.parameters, self.me.world_size)).clone())
        OnTheClass.adamw = torch.optim.AdamW([self.own], lr=self.lr)


class ByTheLibrary(Sharded):
    def start(self) -> None:
        from course_lib.parallel.sharded import ShardedOptimizer

        self.adamw = ShardedOptimizer(self.me, self.parameters, torch.optim.AdamW, lr=self.lr)

    def step(self) -> None:
        self.adamw.step()


EXERCISE = "05.optimizer"
EXAMPLES: dict[str, Any] = {
    "sum-not-mean": Sums,
    "divides-twice": DividesTwice,
    "divides-by-a-constant": DividesByFour,
    "own-gradients-for-own-part": OwnGradients,
    "all-by-own-gradients": Whole,
    "gradients-of-rank-0": GradientsOfRank0,
    "averages-the-weights": AveragesWeights,
    "gradients-pile-up": PilesUp,
    "states-afresh": AfreshEachStep,
    "adam-not-adamw": Adam,
    "loses-the-rate": LosesTheRate,
    "never-moves": NeverMoves,
    "one-step-late": GathersFirst,
    "never-gathers": NeverGathers,
    "own-part-stays": OwnPartStays,
    "last-numbers-stay": DropsTheRest,
    "one-part-repeated": OneTensorInAllPlaces,
    "parts-mixed-up": PartsTurned,
    "not-in-a-row": NotInARow,
    "needs-to-divide": NeedsToDivide,
    "one-for-all-objects": OnTheClass,
    "rank-0-does-it-all": RankZeroDoesAll,
    "states-of-everything": LikeDDP,
    "all-reduce-and-all-gather": AllReduces,
    "gathers-all-gradients": GathersGradients,
    "keeps-more-and-more": KeepsMoreAndMore,
    "deals-out-tensors": DealsOutTensors,
    "keeps-something-whole": KeepsTheGathered,
    "not-waited": NotWaitedFor,
}


FORBIDDEN = ByTheLibrary
