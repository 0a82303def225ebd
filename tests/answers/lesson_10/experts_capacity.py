"""10.experts_capacity: a learner's layer of experts."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.expert_builds.final import ByLoops, ByPyTorch, Final, SumsOfAll, WithNumbers
from answers.lesson_10.expert_builds.wrong_costs import SendsTheDropped
from answers.lesson_10.expert_builds.wrong_values import LikeliestFirst, NoLimit, RoomOfOneChoice, TokenAfterToken

ROWS = [
    Row(answer=Final, verdict="passed", why="an exchange with a backward of its own"),
    Row(answer=ByPyTorch, verdict="passed", why="PyTorch's exchange that autograd knows"),
    Row(answer=WithNumbers, verdict="passed", why="the number of its expert goes along with a row"),
    Row(answer=ByLoops, verdict="passed", why="room by loops, blocks put together by expert"),
    Row(answer=SumsOfAll, verdict="passed", why="each rank has the whole loss, by an all-reduce with a history"),
    Row(answer=SendsTheDropped, verdict="not yet", mistake="sends-the-dropped", why="weight 0 in place of no row"),
    Row(answer=NoLimit, verdict="not yet", mistake="no-limit", why="room for all"),
    Row(answer=TokenAfterToken, verdict="not yet", mistake="token-after-token", why="in the order of memory"),
    Row(answer=LikeliestFirst, verdict="not yet", mistake="the-likeliest-first", why="by probability"),
    Row(answer=RoomOfOneChoice, verdict="not yet", mistake="room-of-one-choice", why="without k"),
]
