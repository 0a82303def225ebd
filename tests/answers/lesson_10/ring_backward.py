"""10.ring_backward: a learner's ring attention."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.ring_builds.earlier import ByGather, ForwardAlone, Waits, WithHandsFull
from answers.lesson_10.ring_builds.final import ByJoin, Final, HeadByHead, InTwoMessages, StraightHome, TheOtherWay
from answers.lesson_10.ring_builds.wrong_values import AtAnotherRank, Halves, NoGraph, OwnPartAlone, ScaledOnce

ROWS = [
    Row(answer=Final, verdict="passed", why="blocks in one message, sums behind the keys"),
    Row(answer=ByJoin, verdict="passed", why="outputs are joined by their log-sum-exp"),
    Row(answer=TheOtherWay, verdict="passed", why="keys go to the rank before"),
    Row(answer=InTwoMessages, verdict="passed", why="keys and values apart, by PyTorch's calls"),
    Row(answer=HeadByHead, verdict="passed", why="the gradients of a head at a time"),
    Row(answer=StraightHome, verdict="passed", why="parts of gradients go straight to the owner"),
    Row(answer=ByGather, verdict="passed", why="an all-gather of autograd's"),
    Row(answer=WithHandsFull, verdict="passed", why="all blocks first"),
    Row(answer=Waits, verdict="passed", why="waits for every message"),
    Row(answer=NoGraph, verdict="not yet", mistake="no-graph", why="detached"),
    Row(answer=OwnPartAlone, verdict="not yet", mistake="own-part-alone", why="nothing comes home"),
    Row(answer=AtAnotherRank, verdict="not yet", mistake="at-another-rank", why="one step short"),
    Row(answer=ForwardAlone, verdict="not yet", why="an all-gather without a history"),
    Row(answer=Halves, verdict="not yet", mistake="gradient-of-scores", why="without what all weights share"),
    Row(answer=ScaledOnce, verdict="not yet", mistake="scaled-once", why="had no name"),
]
