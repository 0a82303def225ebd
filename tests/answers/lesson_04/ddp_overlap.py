"""04.ddp_overlap: a learner's DDP, time hidden."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_04.ddp_builds.earlier import (
    BlockingInViews,
    DividesFirst,
    LaidOutAsParameters,
    LastHookWaits,
    WithFuture,
)
from answers.lesson_04.ddp_builds.final import Final
from answers.lesson_04.ddp_builds.wrong_time import (
    AllAtTheEnd,
    NeverWaits,
    OneLate,
    SleepsForAWait,
    TooSoon,
    WaitsInTheHook,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="the whole build"),
    Row(answer=AllAtTheEnd, verdict="not yet", mistake="leaves-late", why="nothing is hidden"),
    Row(answer=LastHookWaits, verdict="passed", why="the hook of the last gradient of all waits"),
    Row(answer=WithFuture, verdict="passed", why="waits by a future"),
    Row(answer=DividesFirst, verdict="passed", why="a mean by another order"),
    Row(answer=LaidOutAsParameters, verdict="passed", why="views in another layout"),
    Row(answer=WaitsInTheHook, verdict="not yet", mistake="waits-in-the-hook", why="backward stands still"),
    Row(answer=BlockingInViews, verdict="not yet", mistake="waits-in-the-hook", why="backward stands still"),
    Row(answer=OneLate, verdict="not yet", why="a bucket later than it could be"),
    Row(answer=TooSoon, verdict="not yet", why="gradients are missing in what leaves"),
    Row(answer=SleepsForAWait, verdict="not yet", mistake="not-waited-for", why="on a slow link it is too short"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="what is there is known to nobody"),
]
