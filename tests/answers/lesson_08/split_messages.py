"""08.split_messages: a learner's split transformer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_08.split_builds.earlier import WithoutPositions
from answers.lesson_08.split_builds.final import Final
from answers.lesson_08.split_builds.others import AModule, ByOwnGates, ByOwnLoss, ByWholeMasks, InOneBuffer
from answers.lesson_08.split_builds.wrong_values import EntersThreeTimes, GathersWeights, SendsTargets, WithABarrier

ROWS = [
    Row(answer=Final, verdict="passed", why="functions on parts"),
    Row(answer=ByOwnGates, verdict="passed", why="calls of torch.distributed"),
    Row(answer=ByOwnLoss, verdict="passed", why="the loss's gradient by hand; one product for three"),
    Row(answer=ByWholeMasks, verdict="passed", why="masks of one device, of which each takes its part"),
    Row(answer=AModule, verdict="passed", why="a copy of the model with other weights"),
    Row(answer=InOneBuffer, verdict="passed", why="what all hold enters at once"),
    Row(answer=WithoutPositions, verdict="passed", why="the least that passes"),
    Row(answer=WithABarrier, verdict="not yet", mistake="calls-besides", why="waits for all"),
    Row(answer=EntersThreeTimes, verdict="not yet", mistake="enters-three-times", why="a gate for each of three"),
    Row(answer=SendsTargets, verdict="not yet", mistake="sends-more", why="a sum of all logits"),
    Row(answer=GathersWeights, verdict="not yet", mistake="sends-more", why="whole matrices for a moment"),
]
