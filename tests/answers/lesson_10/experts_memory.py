"""10.experts_memory: a learner's layer of experts."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.expert_builds.final import ByLoops, ByPyTorch, Final, SumsOfAll, WithNumbers
from answers.lesson_10.expert_builds.wrong_costs import AllAtOnce, KeepsRows, LeftBehind

ROWS = [
    Row(answer=Final, verdict="passed", why="an exchange with a backward of its own"),
    Row(answer=ByPyTorch, verdict="passed", why="PyTorch's exchange that autograd knows"),
    Row(answer=WithNumbers, verdict="passed", why="the number of its expert goes along with a row"),
    Row(answer=ByLoops, verdict="passed", why="room by loops, blocks put together by expert"),
    Row(answer=SumsOfAll, verdict="passed", why="each rank has the whole loss, by an all-reduce with a history"),
    Row(answer=AllAtOnce, verdict="not yet", mistake="all-at-once", why="(N, E, D)"),
    Row(answer=KeepsRows, verdict="not yet", mistake="keeps-too-much", why="rows saved by the exchange"),
    Row(answer=LeftBehind, verdict="not yet", mistake="left-behind", why="probabilities in the layer"),
]
