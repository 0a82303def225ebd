"""12.job_awkward: a learner's job."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_12.job_builds.final import EachItsPart, Final, FolderEach, FromRank0, InBlocks
from answers.lesson_12.job_builds.wrong_keeps import ZerosForFrozen
from answers.lesson_12.job_builds.wrong_saves import (
    EmptiesTheFolder,
    NeedsACheckpoint,
    NeedsAState,
    SaysNothing,
    StopsAtDamage,
    TakesAnyFile,
    TrustsTheBytes,
)
from answers.lesson_12.job_builds.wrong_steps import FrozenHaveNone, OfTheClass, TiedTwice, TwoAtLeast

ROWS = [
    Row(answer=Final, verdict="passed", why="one file of rank 0"),
    Row(answer=FromRank0, verdict="passed", why="rank 0 reads and broadcasts; a digest"),
    Row(answer=FolderEach, verdict="passed", why="a folder for each"),
    Row(answer=EachItsPart, verdict="passed", why="each rank its part, and a mark"),
    Row(answer=InBlocks, verdict="passed", why="blocks, and an all-reduce each"),
    Row(answer=FrozenHaveNone, verdict="not yet", mistake="frozen-have-none", why="no gradient"),
    Row(answer=TiedTwice, verdict="not yet", mistake="tied-count-twice", why="two names"),
    Row(answer=NeedsAState, verdict="not yet", mistake="needs-a-state", why="a number of the first state"),
    Row(answer=NeedsACheckpoint, verdict="not yet", mistake="needs-a-checkpoint", why="an error"),
    Row(answer=TrustsTheBytes, verdict="not yet", mistake="trusts-the-bytes", why="`torch.load` alone"),
    Row(answer=StopsAtDamage, verdict="not yet", mistake="stops-at-damage", why="the newest or nothing"),
    Row(answer=SaysNothing, verdict="not yet", mistake="says-nothing", why="passed over in silence"),
    Row(answer=TakesAnyFile, verdict="not yet", mistake="takes-others-files", why="*.pt"),
    Row(answer=EmptiesTheFolder, verdict="not yet", mistake="takes-others-files", why="removes notes"),
    Row(answer=OfTheClass, verdict="not yet", mistake="shared-between-jobs", why="of the class"),
    Row(answer=TwoAtLeast, verdict="not yet", mistake="not-alone", why="nobody is there"),
    Row(
        answer=ZerosForFrozen,
        verdict="not yet",
        mistake="frozen-have-none",
        why="passed while the optimizer had the weights that learn alone",
    ),
]
