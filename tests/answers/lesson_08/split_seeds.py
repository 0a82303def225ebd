"""08.split_seeds: a learner's split transformer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_08.split_builds.final import Final
from answers.lesson_08.split_builds.others import AModule, ByOwnGates, ByOwnLoss, ByWholeMasks, InOneBuffer
from answers.lesson_08.split_builds.wrong_details import DropsAlongAlone, DropsBeforeTheBias, OneSeedAStep
from answers.lesson_08.split_builds.wrong_later import (
    DropsInEval,
    DropsNothing,
    OneSeed,
    OneSeedAfterTheMlp,
    OneSeedAtPlaces,
    OwnEverywhere,
    SeedOfTheRank,
    SeedStays,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="functions on parts"),
    Row(answer=ByOwnGates, verdict="passed", why="calls of torch.distributed"),
    Row(answer=ByOwnLoss, verdict="passed", why="the loss's gradient by hand; one product for three"),
    Row(answer=ByWholeMasks, verdict="passed", why="masks of one device, of which each takes its part"),
    Row(answer=AModule, verdict="passed", why="a copy of the model with other weights"),
    Row(answer=InOneBuffer, verdict="passed", why="what all hold enters at once"),
    Row(answer=DropsNothing, verdict="not yet", mistake="drops-too-little", why="no masks at all"),
    Row(answer=DropsInEval, verdict="not yet", mistake="drops-when-it-evaluates", why="by the config alone"),
    Row(answer=OneSeed, verdict="not yet", why="alike everywhere"),
    Row(answer=OneSeedAtPlaces, verdict="not yet", mistake="masks-alike-at-places", why="own ones in attention alone"),
    Row(answer=OneSeedAfterTheMlp, verdict="not yet", mistake="masks-alike-at-places", why="one place was forgotten"),
    Row(answer=SeedOfTheRank, verdict="not yet", mistake="same-in-each-step", why="a seed that stays"),
    Row(answer=SeedStays, verdict="not yet", mistake="seeds-left-apart", why="not put back"),
    Row(answer=DropsBeforeTheBias, verdict="not yet", mistake="drops-too-little", why="passed: no rate was looked at"),
    Row(
        answer=DropsAlongAlone,
        verdict="not yet",
        mistake="drops-too-little",
        why="passed: only heads were looked at",
    ),
    Row(answer=OneSeedAStep, verdict="not yet", mistake="one-mask-in-a-step", why="passed: one mask at each place"),
    Row(answer=OwnEverywhere, verdict="not yet", mistake="masks-apart", why="own ones for what is whole"),
]
