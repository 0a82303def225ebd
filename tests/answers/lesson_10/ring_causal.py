"""10.ring_causal: a learner's ring attention."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_10.ring_builds.earlier import ByGather, Waits, WithHandsFull
from answers.lesson_10.ring_builds.final import ByJoin, Final, HeadByHead, InTwoMessages, StraightHome, TheOtherWay
from answers.lesson_10.ring_builds.wrong_values import ComputesAll, MaskByPlace, NoNumber, OneStretch, OthersUnmasked

ROWS = [
    Row(answer=Final, verdict="passed", why="blocks in one message, sums behind the keys"),
    Row(answer=ByJoin, verdict="passed", why="outputs are joined by their log-sum-exp"),
    Row(answer=TheOtherWay, verdict="passed", why="keys go to the rank before"),
    Row(answer=InTwoMessages, verdict="passed", why="keys and values apart, by PyTorch's calls"),
    Row(answer=HeadByHead, verdict="passed", why="the gradients of a head at a time"),
    Row(answer=StraightHome, verdict="passed", why="parts of gradients go straight to the owner"),
    Row(answer=WithHandsFull, verdict="passed", why="all blocks first"),
    Row(answer=Waits, verdict="passed", why="waits for every message"),
    Row(answer=NoNumber, verdict="not yet", mistake="no-number", why="a softmax of nothing"),
    Row(answer=MaskByPlace, verdict="not yet", mistake="mask-by-place", why="by rows of tensors"),
    Row(answer=OthersUnmasked, verdict="not yet", mistake="others-unmasked", why="its own block alone"),
    Row(answer=OneStretch, verdict="not yet", mistake="one-stretch", why="by ranks"),
    Row(answer=ComputesAll, verdict="not yet", mistake="computes-what-is-hidden", why="whole blocks"),
    Row(answer=ByGather, verdict="not yet", mistake="computes-what-is-hidden", why="all keys at once"),
]
