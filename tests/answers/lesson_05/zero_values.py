"""05.zero_values: a learner's sharded optimizer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.zero_builds.final import AnOptimizer, ByTensors, DividesFirst, Final, Waits, ZerosInPlace
from answers.lesson_05.zero_builds.wrong_values import (
    Afresh,
    AlwaysAdamW,
    DividesTwice,
    GathersFirst,
    GradientsOfRank0,
    LosesDefaults,
    NeverGathers,
    NeverWaits,
    NewWeights,
    NoObject,
    OnePartRepeated,
    OwnGradients,
    OwnPartByOwnGradients,
    PadsInFront,
    PilesUp,
    SetsASeed,
    SleepsForAWait,
    Sums,
    TakesTheRateAlone,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one flat part"),
    Row(answer=Sums, verdict="not yet", mistake="sum-not-mean", why="SGD shows it"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=DividesFirst, verdict="passed", why="the mean as a sum of quotients"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=ZerosInPlace, verdict="passed", why="zeros in place"),
    Row(answer=AnOptimizer, verdict="passed", why="a subclass of torch.optim.Optimizer"),
    Row(answer=DividesTwice, verdict="not yet", mistake="divides-twice", why="AVG and a quotient"),
    Row(answer=OwnGradients, verdict="not yet", mistake="all-by-own-gradients", why="nothing is sent"),
    Row(
        answer=OwnPartByOwnGradients, verdict="not yet", mistake="own-gradients-for-own-part", why="a chunk of its own"
    ),
    Row(answer=GradientsOfRank0, verdict="not yet", mistake="gradients-of-rank-0", why="a broadcast for a sum"),
    Row(answer=NeverGathers, verdict="not yet", mistake="weights-stay-away", why="parts stay where they are"),
    Row(answer=OnePartRepeated, verdict="not yet", why="`[part] * n` is one tensor"),
    Row(answer=Afresh, verdict="not yet", mistake="states-afresh", why="a new optimizer a step"),
    Row(answer=PilesUp, verdict="not yet", mistake="gradients-pile-up", why="`+=` and no `zero_grad`"),
    Row(answer=LosesDefaults, verdict="not yet", mistake="loses-the-defaults", why="no settings"),
    Row(answer=TakesTheRateAlone, verdict="not yet", mistake="loses-the-defaults", why="lr only"),
    Row(answer=AlwaysAdamW, verdict="not yet", mistake="always-adamw", why="as 05.optimizer"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="`async_op`"),
    Row(answer=SleepsForAWait, verdict="not yet", mistake="not-waited-for", why="some time is no wait"),
    Row(answer=GathersFirst, verdict="not yet", why="the weights of one step before"),
    Row(answer=PadsInFront, verdict="not yet", why="weights and gradients do not lie alike"),
    Row(answer=SetsASeed, verdict="not yet", why="random numbers of everybody"),
    Row(answer=NoObject, verdict="not yet", why="a list is no optimizer"),
    Row(answer=NewWeights, verdict="not yet", why="nothing comes to the parameters"),
]
