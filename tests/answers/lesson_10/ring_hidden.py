"""10.ring_hidden: a learner's ring attention."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.ring_builds.earlier import Waits
from answers.lesson_10.ring_builds.final import ByJoin, Final, HeadByHead, InTwoMessages, StraightHome, TheOtherWay
from answers.lesson_10.ring_builds.wrong_costs import WaitsInBackward

ROWS = [
    Row(answer=Final, verdict="passed", why="blocks in one message, sums behind the keys"),
    Row(answer=ByJoin, verdict="passed", why="outputs are joined by their log-sum-exp"),
    Row(answer=TheOtherWay, verdict="passed", why="keys go to the rank before"),
    Row(answer=InTwoMessages, verdict="passed", why="keys and values apart, by PyTorch's calls"),
    Row(answer=HeadByHead, verdict="passed", why="the gradients of a head at a time"),
    Row(answer=StraightHome, verdict="passed", why="parts of gradients go straight to the owner"),
    Row(answer=Waits, verdict="not yet", mistake="waits-first", why="in every message"),
    Row(answer=WaitsInBackward, verdict="not yet", mistake="waits-in-backward", why="for sums"),
]
