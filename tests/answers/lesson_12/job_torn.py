"""12.job_torn: a learner's job."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_12.job_builds.final import EachItsPart, Final, FolderEach, FromRank0, InBlocks
from answers.lesson_12.job_builds.wrong_keeps import KeepsOne, OneFile
from answers.lesson_12.job_builds.wrong_returns import ReturnsEarly, WaitsBefore, WritesBeside
from answers.lesson_12.job_builds.wrong_saves import (
    InPlace,
    KeepsAll,
    MarkGoesFirst,
    NameOrder,
    NotSynced,
    OldGoesFirst,
    OneFileInPlace,
    RenamesBeforeItIsWritten,
    SaidTooEarly,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one file of rank 0"),
    Row(answer=FromRank0, verdict="passed", why="rank 0 reads and broadcasts; a digest"),
    Row(answer=FolderEach, verdict="passed", why="a folder for each"),
    Row(answer=EachItsPart, verdict="passed", why="each rank its part, and a mark"),
    Row(answer=InBlocks, verdict="passed", why="blocks, and an all-reduce each"),
    Row(answer=NameOrder, verdict="not yet", mistake="name-order", why="step_12 before step_9"),
    Row(answer=NotSynced, verdict="not yet", mistake="not-synced", why="no fsync"),
    Row(answer=InPlace, verdict="not yet", mistake="written-in-place", why="under its own name"),
    Row(answer=OneFileInPlace, verdict="not yet", mistake="written-in-place", why="last.pt"),
    Row(
        answer=RenamesBeforeItIsWritten,
        verdict="not yet",
        mistake="written-in-place",
        why="renamed while it is in a buffer",
    ),
    Row(answer=OldGoesFirst, verdict="not yet", mistake="old-goes-first", why="both, before the new one"),
    Row(answer=MarkGoesFirst, verdict="not yet", mistake="said-too-early", why="a mark before the parts"),
    Row(answer=SaidTooEarly, verdict="not yet", why="rank 0 does not wait for the others"),
    Row(answer=ReturnsEarly, verdict="not yet", mistake="returns-early", why="passed: nobody asked the other ranks"),
    Row(answer=WaitsBefore, verdict="not yet", mistake="returns-early", why="passed: a barrier on the wrong side"),
    Row(answer=WritesBeside, verdict="not yet", mistake="returns-early", why="a thread that nobody joins"),
    Row(answer=KeepsOne, verdict="not yet", mistake="keeps-one", why="passed: too few were not looked for"),
    Row(answer=OneFile, verdict="not yet", mistake="keeps-one", why="passed: too few were not looked for"),
    Row(answer=KeepsAll, verdict="not yet", mistake="keeps-them-all", why="nothing is removed"),
]
