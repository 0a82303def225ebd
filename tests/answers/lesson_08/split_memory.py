"""08.split_memory: a learner's split transformer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_08.split_builds.earlier import WithoutPositions
from answers.lesson_08.split_builds.final import Final
from answers.lesson_08.split_builds.others import AModule, ByOwnGates, ByOwnLoss, ByWholeMasks, InOneBuffer
from answers.lesson_08.split_builds.wrong_details import OwnScores
from answers.lesson_08.split_builds.wrong_later import (
    KeepsHidden,
    KeepsLogits,
    KeepsNumbers,
    KeepsTheModel,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="functions on parts"),
    Row(answer=ByOwnGates, verdict="passed", why="calls of torch.distributed"),
    Row(answer=ByOwnLoss, verdict="passed", why="the loss's gradient by hand; one product for three"),
    Row(answer=ByWholeMasks, verdict="passed", why="masks of one device, of which each takes its part"),
    Row(answer=AModule, verdict="passed", why="a copy of the model with other weights"),
    Row(answer=InOneBuffer, verdict="passed", why="what all hold enters at once"),
    Row(answer=WithoutPositions, verdict="passed", why="the least that passes"),
    Row(answer=KeepsTheModel, verdict="not yet", mistake="whole-weights-stay", why="a name for it"),
    Row(answer=KeepsNumbers, verdict="not yet", mistake="whole-weights-stay", why="as bytes"),
    Row(answer=KeepsLogits, verdict="not yet", mistake="left-behind", why="of the last step"),
    Row(answer=KeepsHidden, verdict="not yet", mistake="keeps-more", why="three products more"),
    Row(answer=OwnScores, verdict="not yet", mistake="keeps-more", why="passed while sequences were of six positions"),
]
