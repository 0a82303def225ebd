"""12.job_values: a learner's job."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_12.job_builds.earlier import OnlyTrains
from answers.lesson_12.job_builds.final import EachItsPart, Final, FolderEach, FromRank0, InBlocks
from answers.lesson_12.job_builds.wrong_steps import (
    DividesByRanks,
    EachItsOwn,
    GradientsPileUp,
    NeverWaits,
    NoResume,
    OwnLosses,
    OwnShareCounts,
    PilesUpAndSums,
    ReturnsTensors,
    ScheduleStandsStill,
    SeedFromTime,
    SeedOfRank,
    SeedsForAll,
    SumNotMean,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one file of rank 0"),
    Row(answer=FromRank0, verdict="passed", why="rank 0 reads and broadcasts; a digest"),
    Row(answer=FolderEach, verdict="passed", why="a folder for each"),
    Row(answer=EachItsPart, verdict="passed", why="each rank its part, and a mark"),
    Row(answer=InBlocks, verdict="passed", why="blocks, and an all-reduce each"),
    Row(answer=OnlyTrains, verdict="passed", why="the shortest thing"),
    Row(answer=SumNotMean, verdict="not yet", mistake="another-factor", why="the sum"),
    Row(answer=DividesByRanks, verdict="not yet", mistake="another-factor", why="divided once more"),
    Row(answer=OwnShareCounts, verdict="not yet", mistake="another-factor", why="by the local size"),
    Row(answer=EachItsOwn, verdict="not yet", mistake="each-its-own", why="no message"),
    Row(answer=OwnLosses, verdict="not yet", mistake="each-its-own", why="the weights are right"),
    Row(answer=GradientsPileUp, verdict="not yet", mistake="gradients-pile-up", why="never set back"),
    Row(answer=PilesUpAndSums, verdict="not yet", mistake="gradients-pile-up", why="and summed again; had no name"),
    Row(answer=ScheduleStandsStill, verdict="not yet", mistake="schedule-stands-still", why="no schedule"),
    Row(answer=SeedsForAll, verdict="not yet", mistake="seeds-for-all", why="everybody's seed"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="begun"),
    Row(answer=SeedFromTime, verdict="not yet", why="an order that nobody knows"),
    Row(answer=SeedOfRank, verdict="not yet", why="noise of a rank"),
    Row(answer=ReturnsTensors, verdict="not yet", why="tensors, no numbers"),
    Row(answer=NoResume, verdict="not yet", why="no `resume`"),
]
