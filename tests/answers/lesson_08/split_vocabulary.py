"""08.split_vocabulary: a learner's split transformer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_08.split_builds.earlier import WithoutPositions
from answers.lesson_08.split_builds.final import Final
from answers.lesson_08.split_builds.others import AModule, ByOwnGates, ByOwnLoss, ByWholeMasks, InOneBuffer
from answers.lesson_08.split_builds.wrong_details import OneLargest
from answers.lesson_08.split_builds.wrong_values import (
    Overflows,
    OwnLargest,
    TokensOfOthers,
    VocabularyWhole,
    WholeLogits,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="functions on parts"),
    Row(answer=ByOwnGates, verdict="passed", why="calls of torch.distributed"),
    Row(answer=ByOwnLoss, verdict="passed", why="the loss's gradient by hand; one product for three"),
    Row(answer=ByWholeMasks, verdict="passed", why="masks of one device, of which each takes its part"),
    Row(answer=AModule, verdict="passed", why="a copy of the model with other weights"),
    Row(answer=InOneBuffer, verdict="passed", why="what all hold enters at once"),
    Row(answer=WithoutPositions, verdict="passed", why="the least that passes"),
    Row(answer=VocabularyWhole, verdict="not yet", mistake="vocabulary-whole", why="as in step 1"),
    Row(answer=WholeLogits, verdict="not yet", mistake="whole-logits", why="gathered for PyTorch's loss"),
    Row(answer=Overflows, verdict="not yet", mistake="overflows", why="no largest"),
    Row(
        answer=OneLargest,
        verdict="not yet",
        mistake="overflows",
        why="was told that it computes with other numbers than its parts",
    ),
    Row(answer=OwnLargest, verdict="not yet", why="each its own"),
    Row(answer=TokensOfOthers, verdict="not yet", why="the first row in place of zeros"),
]
