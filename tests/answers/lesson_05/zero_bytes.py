"""05.zero_bytes: a learner's sharded optimizer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_05.zero_builds.final import AnOptimizer, ByTensors, DividesFirst, Final, Waits, ZerosInPlace
from answers.lesson_05.zero_builds.wrong_costs import (
    AddsParts,
    AllReduces,
    AsksWhoHasNone,
    BroadcastsParts,
    EachParameter,
    GathersGradients,
    GathersTwice,
    SendsSizes,
    TwiceAsWide,
    WithABarrier,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one flat part"),
    Row(answer=AllReduces, verdict="not yet", mistake="all-reduces", why="its second half is for nothing"),
    Row(answer=ByTensors, verdict="passed", why="by the collectives that take one tensor"),
    Row(answer=DividesFirst, verdict="passed", why="the mean as a sum of quotients"),
    Row(answer=Waits, verdict="passed", why="begun, and waited for"),
    Row(answer=ZerosInPlace, verdict="passed", why="gradients are set to zero in place"),
    Row(answer=AnOptimizer, verdict="passed", why="a subclass of torch.optim.Optimizer"),
    Row(answer=GathersGradients, verdict="not yet", why="n times the gradients"),
    Row(answer=WithABarrier, verdict="not yet", mistake="sends-besides", why="nothing needs it"),
    Row(answer=BroadcastsParts, verdict="not yet", mistake="a-broadcast-a-part", why="one after the other"),
    Row(answer=EachParameter, verdict="not yet", mistake="a-call-a-parameter", why="twelve calls"),
    Row(answer=TwiceAsWide, verdict="not yet", why="sixteen bytes a number"),
    Row(answer=GathersTwice, verdict="not yet", mistake="more-than-two", why="one time will do"),
    Row(answer=AsksWhoHasNone, verdict="not yet", mistake="sends-besides", why="a flag, and no whole gradients"),
    Row(answer=SendsSizes, verdict="not yet", mistake="more-than-two", why="not a call for each parameter"),
    Row(answer=AddsParts, verdict="not yet", mistake="all-reduces-weights", why="weights, and not gradients"),
]
