"""04.ddp_memory: a learner's DDP, memory."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_04.ddp_builds.earlier import (
    BlockingInViews,
    DividesFirst,
    InBuckets,
    LaidOutAsParameters,
    LastHookWaits,
)
from answers.lesson_04.ddp_builds.final import Final
from answers.lesson_04.ddp_builds.wrong_time import CopiesBack, KeepsAll, KeepsTwo, MakesThemAnew

ROWS = [
    Row(answer=BlockingInViews, verdict="passed", why="flat tensors that stay, and views"),
    Row(answer=InBuckets, verdict="not yet", mistake="copies-back", why="a second copy, and a way back"),
    Row(answer=LastHookWaits, verdict="passed", why="new flat tensors each step, which the gradients become"),
    Row(answer=Final, verdict="passed", why="the whole build"),
    Row(answer=LaidOutAsParameters, verdict="passed", why="views in another layout"),
    Row(answer=DividesFirst, verdict="passed", why="a mean by another order"),
    Row(answer=CopiesBack, verdict="not yet", mistake="copies-back", why="all gradients twice, for good"),
    Row(answer=KeepsTwo, verdict="not yet", mistake="keeps-two", why="a copy of each bucket stays"),
    Row(answer=KeepsAll, verdict="not yet", mistake="keeps-two", why="each step leaves more"),
    Row(answer=MakesThemAnew, verdict="not yet", mistake="copies-back", why="new tensors each step"),
]
