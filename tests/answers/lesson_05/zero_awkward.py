"""05.zero_awkward: a learner's sharded optimizer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.zero_builds.final import AnOptimizer, ByTensors, DividesFirst, Final, Waits, ZerosInPlace
from answers.lesson_05.zero_builds.wrong_models import (
    AnOptimizerADtype,
    AsksFrozen,
    AsksUnused,
    ByTheLast,
    FixedRate,
    LeavesOutUnused,
    OneDtype,
    Promotes,
    SendsFloat64,
    SharedParts,
    TakesFrozen,
    TwoAtLeast,
    ViewsAll,
    WritesToACopy,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one flat part"),
    Row(answer=TakesFrozen, verdict="not yet", mistake="frozen-have-none", why="weight decay moves them"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=DividesFirst, verdict="passed", why="the mean as a sum of quotients"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=ZerosInPlace, verdict="passed", why="gradients are set to zero in place"),
    Row(answer=AnOptimizer, verdict="passed", why="a subclass of torch.optim.Optimizer"),
    Row(answer=AsksFrozen, verdict="not yet", mistake="frozen-have-none", why="None has no norm"),
    Row(answer=AsksUnused, verdict="not yet", mistake="unused-have-none", why="None has no `detach`"),
    Row(answer=LeavesOutUnused, verdict="not yet", mistake="unused-have-none", why="the others wait"),
    Row(answer=OneDtype, verdict="not yet", mistake="mixes-dtypes", why="float32 for all"),
    Row(answer=Promotes, verdict="not yet", mistake="sent-wider", why="float32 travels as float64"),
    Row(answer=SendsFloat64, verdict="not yet", mistake="sent-wider", why="the gradients, both in float64"),
    Row(answer=AnOptimizerADtype, verdict="not yet", mistake="rate-of-one-dtype", why="the groups of one dtype"),
    Row(answer=WritesToACopy, verdict="not yet", mistake="writes-to-a-copy", why="`reshape` copies"),
    Row(answer=ViewsAll, verdict="not yet", mistake="writes-to-a-copy", why="`view` refuses"),
    Row(answer=FixedRate, verdict="not yet", mistake="rate-is-fixed", why="a copy of the groups"),
    Row(answer=SharedParts, verdict="not yet", mistake="shared-between-objects", why="of the class"),
    Row(answer=ByTheLast, verdict="not yet", mistake="shared-between-objects", why="of the class"),
    Row(answer=TwoAtLeast, verdict="not yet", why="nobody is there"),
]
