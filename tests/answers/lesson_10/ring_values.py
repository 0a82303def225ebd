"""10.ring_values: a learner's ring attention."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.ring_builds.earlier import ByGather, ForwardAlone, Waits, WithHandsFull
from answers.lesson_10.ring_builds.final import ByJoin, Final, HeadByHead, InTwoMessages, StraightHome, TheOtherWay
from answers.lesson_10.ring_builds.wrong_values import (
    Averages,
    KeepsByShape,
    LetsGo,
    Narrow,
    NeverDivides,
    NeverRescales,
    NeverWaits,
    NoCall,
    Overflows,
    OwnKeysAlone,
    ReturnsAPair,
    ScalesInPlace,
    SetsASeed,
    StartsAtZero,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="blocks in one message, sums behind the keys"),
    Row(answer=ByJoin, verdict="passed", why="outputs are joined by their log-sum-exp"),
    Row(answer=TheOtherWay, verdict="passed", why="keys go to the rank before"),
    Row(answer=InTwoMessages, verdict="passed", why="keys and values apart, by PyTorch's calls"),
    Row(answer=HeadByHead, verdict="passed", why="the gradients of a head at a time"),
    Row(answer=StraightHome, verdict="passed", why="parts of gradients go straight to the owner"),
    Row(answer=ByGather, verdict="passed", why="an all-gather of autograd's"),
    Row(answer=ForwardAlone, verdict="passed", why="no way back"),
    Row(answer=WithHandsFull, verdict="passed", why="all blocks first"),
    Row(answer=Waits, verdict="passed", why="waits for every message"),
    Row(answer=OwnKeysAlone, verdict="not yet", mistake="own-keys-alone", why="one block"),
    Row(answer=Averages, verdict="not yet", mistake="averages", why="each block alike"),
    Row(answer=NeverRescales, verdict="not yet", mistake="not-rescaled", why="each from its own largest"),
    Row(answer=NeverDivides, verdict="not yet", mistake="not-divided", why="no root"),
    Row(answer=Overflows, verdict="not yet", mistake="overflows", why="exp as it is"),
    Row(
        answer=StartsAtZero, verdict="not yet", mistake="overflows", why="passed while scores were large above 0 alone"
    ),
    Row(answer=KeepsByShape, verdict="not yet", mistake="earlier-result", why="by shape"),
    Row(answer=ScalesInPlace, verdict="not yet", mistake="spoils-what-came", why="in the tensor that came"),
    Row(answer=SetsASeed, verdict="not yet", mistake="spoils-what-came", why="everybody's seed"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="sends are kept"),
    Row(answer=LetsGo, verdict="not yet", mistake="not-waited-for", why="sends are forgotten"),
    Row(answer=ReturnsAPair, verdict="not yet", why="the log-sum-exp comes along"),
    Row(answer=NoCall, verdict="not yet", why="a class that is not called"),
    Row(answer=Narrow, verdict="not yet", why="float32 alone"),
]
