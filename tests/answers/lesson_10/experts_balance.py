"""10.experts_balance: a learner's layer of experts."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.expert_builds.final import ByLoops, ByPyTorch, Final, SumsOfAll, WithNumbers
from answers.lesson_10.expert_builds.wrong_values import (
    CountsItsOwn,
    CountsTheKept,
    MeanOfMeans,
    NeverAPair,
    PushesNothing,
    PushesTooLittle,
    WithoutE,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="an exchange with a backward of its own"),
    Row(answer=ByPyTorch, verdict="passed", why="PyTorch's exchange that autograd knows"),
    Row(answer=WithNumbers, verdict="passed", why="the number of its expert goes along with a row"),
    Row(answer=ByLoops, verdict="passed", why="room by loops, blocks put together by expert"),
    Row(answer=SumsOfAll, verdict="passed", why="each rank has the whole loss, by an all-reduce with a history"),
    Row(answer=CountsItsOwn, verdict="not yet", mistake="counts-its-own", why="no all-reduce"),
    Row(answer=WithoutE, verdict="not yet", mistake="without-e", why="divided by E"),
    Row(answer=MeanOfMeans, verdict="not yet", mistake="mean-of-means", why="this rank's mean"),
    Row(answer=CountsTheKept, verdict="not yet", mistake="counts-the-kept", why="after the limit"),
    Row(answer=PushesNothing, verdict="not yet", mistake="pushes-nothing", why="detached"),
    Row(
        answer=PushesTooLittle, verdict="not yet", mistake="pushes-too-little", why="the whole loss, a part's gradient"
    ),
    Row(answer=NeverAPair, verdict="not yet", why="an attribute"),
]
