"""12.job_fewer: a learner's job."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_12.job_builds.final import EachItsPart, Final, FolderEach, FromRank0, InBlocks
from answers.lesson_12.job_builds.wrong_saves import FileOfRank, PlaceOfRank, RandomOfRank

ROWS = [
    Row(answer=Final, verdict="passed", why="one file of rank 0"),
    Row(answer=FromRank0, verdict="passed", why="rank 0 reads and broadcasts; a digest"),
    Row(answer=FolderEach, verdict="passed", why="a folder for each"),
    Row(answer=EachItsPart, verdict="passed", why="each rank its part, and a mark"),
    Row(answer=InBlocks, verdict="passed", why="blocks, and an all-reduce each"),
    Row(answer=FileOfRank, verdict="not yet", mistake="bound-to-ranks", why="a name with the number of ranks"),
    Row(answer=PlaceOfRank, verdict="not yet", mistake="bound-to-ranks", why="samples of a rank"),
    Row(answer=RandomOfRank, verdict="not yet", mistake="bound-to-ranks", why="other noise on another number"),
]
