"""10.experts_backward: a learner's layer of experts."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.expert_builds.earlier import ByGather, ByPlaces, ForwardAlone
from answers.lesson_10.expert_builds.final import ByLoops, ByPyTorch, Final, SumsOfAll, WithNumbers
from answers.lesson_10.expert_builds.wrong_values import (
    ExpertsAveraged,
    NoGraph,
    OneWayToX,
    OwnTokensAlone,
    RouterLearnsNothing,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="an exchange with a backward of its own"),
    Row(answer=ByPyTorch, verdict="passed", why="PyTorch's exchange that autograd knows"),
    Row(answer=WithNumbers, verdict="passed", why="the number of its expert goes along with a row"),
    Row(answer=ByLoops, verdict="passed", why="room by loops, blocks put together by expert"),
    Row(answer=SumsOfAll, verdict="passed", why="each rank has the whole loss, by an all-reduce with a history"),
    Row(answer=ByPlaces, verdict="passed", why="GShard's places"),
    Row(answer=ByGather, verdict="passed", why="all outputs of all experts"),
    Row(answer=NoGraph, verdict="not yet", mistake="no-graph", why="a plain collective"),
    Row(
        answer=RouterLearnsNothing, verdict="not yet", mistake="router-learns-nothing", why="weights without a history"
    ),
    Row(answer=OwnTokensAlone, verdict="not yet", mistake="own-tokens-alone", why="lost on the way back"),
    Row(answer=ExpertsAveraged, verdict="not yet", mistake="experts-averaged", why="divided by the ranks"),
    Row(answer=OneWayToX, verdict="not yet", mistake="one-way-to-x", why="scores without a history"),
    Row(answer=ForwardAlone, verdict="not yet", why="plain collectives"),
]
