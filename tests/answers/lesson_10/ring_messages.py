"""10.ring_messages: a learner's ring attention."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.ring_builds.earlier import Waits, WithHandsFull
from answers.lesson_10.ring_builds.final import ByJoin, Final, HeadByHead, InTwoMessages, StraightHome, TheOtherWay
from answers.lesson_10.ring_builds.wrong_costs import (
    GathersKeys,
    HeadsOneByOne,
    OneStepMore,
    SendsQueries,
    SendsRepeated,
    WithABarrier,
)
from answers.lesson_10.ring_builds.wrong_values import MixesHeads

ROWS = [
    Row(answer=Final, verdict="passed", why="blocks in one message, sums behind the keys"),
    Row(answer=ByJoin, verdict="passed", why="outputs are joined by their log-sum-exp"),
    Row(answer=TheOtherWay, verdict="passed", why="keys go to the rank before"),
    Row(answer=InTwoMessages, verdict="passed", why="keys and values apart, by PyTorch's calls"),
    Row(answer=HeadByHead, verdict="passed", why="the gradients of a head at a time"),
    Row(answer=StraightHome, verdict="passed", why="parts of gradients go straight to the owner"),
    Row(answer=WithHandsFull, verdict="passed", why="all blocks first"),
    Row(answer=Waits, verdict="passed", why="waits for every message"),
    Row(answer=MixesHeads, verdict="not yet", mistake="mixes-grouped-heads", why="heads M apart"),
    Row(answer=WithABarrier, verdict="not yet", mistake="calls-besides", why="a barrier"),
    Row(answer=GathersKeys, verdict="not yet", mistake="calls-besides", why="an all-gather"),
    Row(answer=SendsRepeated, verdict="not yet", mistake="repeated-heads", why="each query head"),
    Row(answer=OneStepMore, verdict="not yet", mistake="one-step-too-many", why="home again"),
    Row(answer=SendsQueries, verdict="not yet", mistake="more-bytes", why="queries as well"),
    Row(answer=HeadsOneByOne, verdict="not yet", mistake="more-messages", why="one for each head"),
]
