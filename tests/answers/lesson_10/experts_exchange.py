"""10.experts_exchange: a learner's layer of experts."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.expert_builds.earlier import ByGather, ByPlaces
from answers.lesson_10.expert_builds.final import ByLoops, ByPyTorch, Final, SumsOfAll, WithNumbers
from answers.lesson_10.expert_builds.wrong_costs import Padded, PieceByPiece, WithBarriers

ROWS = [
    Row(answer=Final, verdict="passed", why="an exchange with a backward of its own"),
    Row(answer=ByPyTorch, verdict="passed", why="PyTorch's exchange that autograd knows"),
    Row(answer=WithNumbers, verdict="passed", why="the number of its expert goes along with a row"),
    Row(answer=ByLoops, verdict="passed", why="room by loops, blocks put together by expert"),
    Row(answer=SumsOfAll, verdict="passed", why="each rank has the whole loss, by an all-reduce with a history"),
    Row(
        answer=ByPlaces, verdict="not yet", mistake="computes-for-nothing", why="a place for each token at each expert"
    ),
    Row(answer=PieceByPiece, verdict="not yet", mistake="piece-by-piece", why="rank by rank"),
    Row(answer=Padded, verdict="not yet", mistake="more-bytes", why="parts as large as the largest"),
    Row(answer=WithBarriers, verdict="not yet", mistake="more-calls", why="barriers"),
    Row(answer=ByGather, verdict="not yet", mistake="computes-for-nothing", why="all outputs of all experts"),
]
