"""10.ring_awkward: a learner's ring attention."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.ring_builds.final import ByJoin, Final, HeadByHead, InTwoMessages, StraightHome, TheOtherWay
from answers.lesson_10.ring_builds.wrong_costs import (
    AllLearn,
    CoarseSums,
    LosesTheDtype,
    PartsAlike,
    Shared,
    Strangers,
    TwoAtLeast,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="blocks in one message, sums behind the keys"),
    Row(answer=ByJoin, verdict="passed", why="outputs are joined by their log-sum-exp"),
    Row(answer=TheOtherWay, verdict="passed", why="keys go to the rank before"),
    Row(answer=InTwoMessages, verdict="passed", why="keys and values apart, by PyTorch's calls"),
    Row(answer=HeadByHead, verdict="passed", why="the gradients of a head at a time"),
    Row(answer=StraightHome, verdict="passed", why="parts of gradients go straight to the owner"),
    Row(answer=PartsAlike, verdict="not yet", mistake="parts-alike", why="rooms of its own size"),
    Row(answer=LosesTheDtype, verdict="not yet", mistake="loses-the-dtype", why="float32 comes out"),
    Row(answer=CoarseSums, verdict="not yet", mistake="coarse-sums", why="bfloat16 throughout"),
    Row(answer=AllLearn, verdict="not yet", mistake="all-need-gradients", why="counts on three"),
    Row(answer=Shared, verdict="not yet", mistake="shared-between-objects", why="of the class"),
    Row(answer=Strangers, verdict="not yet", mistake="strangers", why="ranks of the job"),
    Row(answer=TwoAtLeast, verdict="not yet", mistake="not-alone", why="nobody is there"),
]
