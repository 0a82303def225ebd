"""12.job_checkpoint: a learner's job."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_12.job_builds.final import EachItsPart, Final, FolderEach, FromRank0, InBlocks
from answers.lesson_12.job_builds.wrong_returns import ReturnsNothing
from answers.lesson_12.job_builds.wrong_saves import (
    BuffersAfresh,
    EpochAgain,
    InPlace,
    LoadsOnRank0,
    NeverSaves,
    OptimizerAfresh,
    RandomAfresh,
    ScheduleAfresh,
    StepIsLost,
    Unlucky,
    WeightsAfresh,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one file of rank 0"),
    Row(answer=FromRank0, verdict="passed", why="rank 0 reads and broadcasts; a digest"),
    Row(answer=FolderEach, verdict="passed", why="a folder for each"),
    Row(answer=EachItsPart, verdict="passed", why="each rank its part, and a mark"),
    Row(answer=InBlocks, verdict="passed", why="blocks, and an all-reduce each"),
    Row(answer=NeverSaves, verdict="not yet", mistake="nothing-there", why="no checkpoint"),
    Row(answer=StepIsLost, verdict="not yet", mistake="nothing-there", why="it begins at 0"),
    Row(answer=WeightsAfresh, verdict="not yet", mistake="weights-afresh", why="no weights"),
    Row(answer=BuffersAfresh, verdict="not yet", mistake="buffers-afresh", why="parameters alone"),
    Row(answer=OptimizerAfresh, verdict="not yet", mistake="optimizer-afresh", why="no optimizer"),
    Row(answer=ScheduleAfresh, verdict="not yet", mistake="schedule-afresh", why="no schedule"),
    Row(answer=RandomAfresh, verdict="not yet", mistake="random-afresh", why="no generator"),
    Row(answer=EpochAgain, verdict="not yet", mistake="epoch-again", why="no place"),
    Row(answer=LoadsOnRank0, verdict="not yet", why="the others have weights of their own"),
    Row(answer=Unlucky, verdict="not yet", why="another seed at each start"),
    Row(answer=InPlace, verdict="passed", why="right, as far as this step goes"),
    Row(
        answer=ReturnsNothing,
        verdict="not yet",
        words=("returned None",),
        unsaid=("begins again",),
        why="was told that it begins again at step 0, and it goes on",
    ),
]
