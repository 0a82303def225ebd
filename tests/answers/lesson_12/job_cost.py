"""12.job_cost: a learner's job."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_12.job_builds.final import EachItsPart, Final, FolderEach, FromRank0, InBlocks
from answers.lesson_12.job_builds.wrong_keeps import WritesElsewhere
from answers.lesson_12.job_builds.wrong_saves import EverybodyWrites, NobodyIsTold, OthersWait, SendsTheState, WhyIsLost
from answers.lesson_12.job_builds.wrong_steps import BarrierEachStep, SendsWeights

ROWS = [
    Row(answer=Final, verdict="passed", why="one file of rank 0"),
    Row(answer=FromRank0, verdict="passed", why="rank 0 reads and broadcasts; a digest"),
    Row(answer=FolderEach, verdict="passed", why="a folder for each"),
    Row(answer=EachItsPart, verdict="passed", why="each rank its part, and a mark"),
    Row(answer=InBlocks, verdict="passed", why="blocks, and an all-reduce each"),
    Row(answer=NobodyIsTold, verdict="not yet", mistake="nobody-is-told", why="a line on rank 0"),
    Row(answer=WhyIsLost, verdict="not yet", mistake="why-is-lost", why="a flag"),
    Row(answer=OthersWait, verdict="not yet", mistake="others-wait", why="in a barrier"),
    Row(answer=EverybodyWrites, verdict="not yet", mistake="everybody-writes-all", why="a draft each"),
    Row(answer=SendsTheState, verdict="not yet", mistake="sends-the-state", why="all to all"),
    Row(answer=BarrierEachStep, verdict="not yet", mistake="barrier-each-step", why="in each step"),
    Row(answer=SendsWeights, verdict="not yet", mistake="barrier-each-step", why="weights in each step"),
    Row(
        answer=WritesElsewhere,
        verdict="not yet",
        words=("it opened no file in the folder",),
        unsaid=("went on as if",),
        why="was told that a rank could not write, and it could",
    ),
]
