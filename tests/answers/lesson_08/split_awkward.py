"""08.split_awkward: a learner's split transformer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_08.split_builds.final import Final
from answers.lesson_08.split_builds.others import AModule, ByOwnGates, ByOwnLoss, ByWholeMasks, InOneBuffer
from answers.lesson_08.split_builds.wrong_later import (
    AllLearn,
    AlwaysFloat64,
    AsManyKeys,
    EvenPartsOnly,
    NoSentence,
    OneNameOfATie,
    Replaces,
    SharedParts,
    TiesApart,
    TwoAtLeast,
    WholeContext,
    WholeWorld,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="functions on parts"),
    Row(answer=ByOwnGates, verdict="passed", why="calls of torch.distributed"),
    Row(answer=ByOwnLoss, verdict="passed", why="the loss's gradient by hand; one product for three"),
    Row(answer=ByWholeMasks, verdict="passed", why="masks of one device, of which each takes its part"),
    Row(answer=AModule, verdict="passed", why="a copy of the model with other weights"),
    Row(answer=InOneBuffer, verdict="passed", why="what all hold enters at once"),
    Row(answer=NoSentence, verdict="not yet", mistake="no-sentence", why="an error that says nothing"),
    Row(answer=Replaces, verdict="not yet", mistake="replaces-gradients", why="taken away"),
    Row(answer=TiesApart, verdict="not yet", mistake="ties-apart", why="two parameters"),
    Row(answer=OneNameOfATie, verdict="not yet", mistake="ties-apart", why="under one name"),
    Row(answer=AllLearn, verdict="not yet", mistake="all-learn", why="frozen ones as well"),
    Row(answer=EvenPartsOnly, verdict="not yet", mistake="even-parts-only", why="a first row by a product"),
    Row(
        answer=AsManyKeys, verdict="not yet", mistake="as-many-keys-as-queries", why="keys repeated before they are cut"
    ),
    Row(answer=AlwaysFloat64, verdict="not yet", mistake="one-kind-of-batch", why="whatever came"),
    Row(answer=WholeContext, verdict="not yet", mistake="one-kind-of-batch", why="the last positions"),
    Row(answer=WholeWorld, verdict="not yet", mistake="whole-world", why="sums over everybody"),
    Row(answer=SharedParts, verdict="not yet", mistake="shared-between-objects", why="of the class"),
    Row(answer=TwoAtLeast, verdict="not yet", mistake="not-alone", why="one rank refuses"),
]
