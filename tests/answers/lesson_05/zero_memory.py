"""05.zero_memory: a learner's sharded optimizer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.zero_builds.final import AnOptimizer, ByTensors, DividesFirst, Final, Waits, ZerosInPlace
from answers.lesson_05.zero_builds.wrong_costs import (
    AllStates,
    KeepsAList,
    KeepsAll,
    KeepsAView,
    KeepsGradients,
    KeepsWeights,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one flat part"),
    Row(answer=AllStates, verdict="not yet", mistake="states-of-everything", why="nothing is saved"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=DividesFirst, verdict="passed", why="the mean as a sum of quotients"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=ZerosInPlace, verdict="passed", why="gradients are set to zero in place"),
    Row(answer=AnOptimizer, verdict="passed", why="a subclass of torch.optim.Optimizer"),
    Row(answer=KeepsAView, verdict="not yet", mistake="keeps-the-whole", why="a view holds its storage"),
    Row(answer=KeepsGradients, verdict="not yet", mistake="keeps-the-whole", why="a row in `self`"),
    Row(answer=KeepsWeights, verdict="not yet", mistake="keeps-the-whole", why="a row in `self`"),
    Row(answer=KeepsAList, verdict="not yet", mistake="keeps-the-whole", why="numbers in a list"),
    Row(answer=KeepsAll, verdict="not yet", mistake="grows", why="a record of all steps"),
]
