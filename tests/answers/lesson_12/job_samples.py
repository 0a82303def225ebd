"""12.job_samples: a learner's job."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_12.job_builds.final import EachItsPart, Final, FolderEach, FromRank0, InBlocks
from answers.lesson_12.job_builds.wrong_steps import (
    DealsByRank,
    FillsUp,
    GivesAllToOne,
    LosesTheRest,
    OneOrder,
    RestToTheLast,
    SeedFromTime,
    ShortCountWhole,
    SkipsEmptyLists,
    TensorsOfSamples,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="one file of rank 0"),
    Row(answer=FromRank0, verdict="passed", why="rank 0 reads and broadcasts; a digest"),
    Row(answer=FolderEach, verdict="passed", why="a folder for each"),
    Row(answer=EachItsPart, verdict="passed", why="each rank its part, and a mark"),
    Row(answer=InBlocks, verdict="passed", why="blocks, and an all-reduce each"),
    Row(answer=OneOrder, verdict="not yet", mistake="one-order", why="epoch 0 for ever"),
    Row(answer=FillsUp, verdict="not yet", mistake="a-sample-twice", why="as DistributedSampler"),
    Row(answer=LosesTheRest, verdict="not yet", mistake="a-sample-is-lost", why="as drop_last"),
    Row(answer=RestToTheLast, verdict="not yet", mistake="uneven-shares", why="the last one has the rest"),
    Row(answer=GivesAllToOne, verdict="not yet", mistake="uneven-shares", why="rank 0 has short batches"),
    Row(answer=ShortCountWhole, verdict="not yet", mistake="short-batches-count-whole", why="by the batch size"),
    Row(
        answer=SkipsEmptyLists,
        verdict="not yet",
        mistake="empty-lists-skipped",
        why="was told that its short batch has the wrong mean, and that was right",
    ),
    Row(
        answer=TensorsOfSamples,
        verdict="not yet",
        words=("a list of whole numbers",),
        unsaid=("no rank has",),
        why="was told that a sample is with no rank, and it was there in a tensor",
    ),
    Row(answer=DealsByRank, verdict="not yet", why="a local batch: the global one is another"),
    Row(answer=SeedFromTime, verdict="not yet", why="an order that nobody knows"),
]
