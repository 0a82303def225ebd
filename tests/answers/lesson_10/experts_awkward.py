"""10.experts_awkward: a learner's layer of experts."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.expert_builds.final import ByLoops, ByPyTorch, Final, SumsOfAll, WithNumbers
from answers.lesson_10.expert_builds.wrong_costs import (
    CoarseScores,
    LosesTheDtype,
    RestsWhenFrozen,
    RestsWithoutRows,
    RestsWithoutTokens,
    Shared,
    Strangers,
    TwoAtLeast,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="an exchange with a backward of its own"),
    Row(answer=ByPyTorch, verdict="passed", why="PyTorch's exchange that autograd knows"),
    Row(answer=WithNumbers, verdict="passed", why="the number of its expert goes along with a row"),
    Row(answer=ByLoops, verdict="passed", why="room by loops, blocks put together by expert"),
    Row(answer=SumsOfAll, verdict="passed", why="each rank has the whole loss, by an all-reduce with a history"),
    Row(answer=RestsWithoutTokens, verdict="not yet", mistake="rests-without-tokens", why="returns early"),
    Row(answer=RestsWithoutRows, verdict="not yet", mistake="rests-without-rows", why="nothing to compute"),
    Row(answer=LosesTheDtype, verdict="not yet", mistake="loses-the-dtype", why="float32 comes out"),
    Row(answer=CoarseScores, verdict="not yet", mistake="coarse-scores", why="the router as it is"),
    Row(answer=RestsWhenFrozen, verdict="not yet", mistake="rests-when-frozen", why="no history"),
    Row(answer=Shared, verdict="not yet", mistake="shared-between-layers", why="of the class"),
    Row(answer=Strangers, verdict="not yet", mistake="strangers", why="ranks of the job"),
    Row(answer=TwoAtLeast, verdict="not yet", mistake="not-alone", why="nobody is there"),
]
