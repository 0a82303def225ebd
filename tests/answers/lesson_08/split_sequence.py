"""08.split_sequence: a learner's split transformer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_08.split_builds.earlier import WithoutPositions
from answers.lesson_08.split_builds.final import Final
from answers.lesson_08.split_builds.others import AModule, ByOwnGates, ByOwnLoss, ByWholeMasks, InOneBuffer
from answers.lesson_08.split_builds.wrong_later import (
    BiasesNotSummed,
    GathersAndSplits,
    IgnoresSequence,
    NormsNotSummed,
    PositionsPartial,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="functions on parts"),
    Row(answer=ByOwnGates, verdict="passed", why="calls of torch.distributed"),
    Row(answer=ByOwnLoss, verdict="passed", why="the loss's gradient by hand; one product for three"),
    Row(answer=ByWholeMasks, verdict="passed", why="masks of one device, of which each takes its part"),
    Row(answer=AModule, verdict="passed", why="a copy of the model with other weights"),
    Row(answer=InOneBuffer, verdict="passed", why="what all hold enters at once"),
    Row(answer=IgnoresSequence, verdict="not yet", mistake="still-whole", why="all-reduces"),
    Row(answer=NormsNotSummed, verdict="not yet", mistake="norms-not-summed", why="each its positions"),
    Row(answer=BiasesNotSummed, verdict="not yet", mistake="norms-not-summed", why="each its positions"),
    Row(answer=PositionsPartial, verdict="not yet", mistake="positions-partial", why="a slice"),
    Row(answer=GathersAndSplits, verdict="not yet", why="gradients of other features are lost"),
    Row(answer=WithoutPositions, verdict="raised", why="no such parameter"),
]
