"""10.experts_values: a learner's layer of experts."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.expert_builds.earlier import ByGather, ByPlaces, ForwardAlone
from answers.lesson_10.expert_builds.final import ByLoops, ByPyTorch, Final, SumsOfAll, WithNumbers
from answers.lesson_10.expert_builds.wrong_values import (
    ByPosition,
    EveryExpert,
    KeepsByShape,
    LeftAsSorted,
    Narrow,
    NeverWaits,
    NoCall,
    Normalised,
    Nothing,
    OwnExpertsAlone,
    ReturnsAPair,
    ScalesInPlace,
    SetsASeed,
    Unweighted,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="an exchange with a backward of its own"),
    Row(answer=ByPyTorch, verdict="passed", why="PyTorch's exchange that autograd knows"),
    Row(answer=WithNumbers, verdict="passed", why="the number of its expert goes along with a row"),
    Row(answer=ByLoops, verdict="passed", why="room by loops, blocks put together by expert"),
    Row(answer=SumsOfAll, verdict="passed", why="each rank has the whole loss, by an all-reduce with a history"),
    Row(answer=ForwardAlone, verdict="passed", why="no way back"),
    Row(answer=ByPlaces, verdict="passed", why="GShard's places"),
    Row(answer=ByGather, verdict="passed", why="all outputs of all experts"),
    Row(answer=OwnExpertsAlone, verdict="not yet", mistake="own-experts-alone", why="others count nothing"),
    Row(answer=Unweighted, verdict="not yet", mistake="unweighted", why="ones"),
    Row(answer=Normalised, verdict="not yet", mistake="normalised", why="divided by their sum"),
    Row(answer=EveryExpert, verdict="not yet", mistake="every-expert", why="k is E"),
    Row(answer=LeftAsSorted, verdict="not yet", mistake="left-as-sorted", why="expert after expert"),
    Row(answer=KeepsByShape, verdict="not yet", mistake="earlier-result", why="by shape"),
    Row(answer=ScalesInPlace, verdict="not yet", mistake="spoils-what-came", why="tokens doubled in place"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="a sum beside"),
    Row(answer=SetsASeed, verdict="not yet", mistake="spoils-what-came", why="everybody's seed"),
    Row(answer=ReturnsAPair, verdict="not yet", why="a pair in any case"),
    Row(answer=NoCall, verdict="not yet", why="a class that is not called"),
    Row(answer=Narrow, verdict="not yet", why="float32 alone"),
    Row(answer=ByPosition, verdict="not yet", why="the first experts"),
    Row(answer=Nothing, verdict="not yet", why="gives back what came"),
]
