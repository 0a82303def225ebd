"""09.mesh_checkpoint: a learner's trainer on a mesh."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_09.mesh_builds.earlier import NoCheckpoint, PlainModels
from answers.lesson_09.mesh_builds.final import Final
from answers.lesson_09.mesh_builds.others import ByTheCoursesPipeline, FlatGroups, OneForwardOneBackward, ShareOfEach
from answers.lesson_09.mesh_builds.wrong_later import (
    CountAfresh,
    EverybodyWrites,
    FileOfEachRank,
    OldShare,
    StatesAfresh,
    WeightsAfresh,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="GPipe by hand, one vector, a file of each stage"),
    Row(answer=OneForwardOneBackward, verdict="passed", why="1F1B by hand"),
    Row(answer=ByTheCoursesPipeline, verdict="passed", why="the course's runtime, a file of each slice"),
    Row(answer=ShareOfEach, verdict="passed", why="a share of each parameter, a file of each name"),
    Row(answer=FlatGroups, verdict="passed", why="axis by axis, by an all-to-all"),
    Row(answer=PlainModels, verdict="passed", why="no tied matrix"),
    Row(answer=WeightsAfresh, verdict="not yet", mistake="weights-afresh", why="of the new model"),
    Row(answer=StatesAfresh, verdict="not yet", mistake="states-afresh", why="forgotten"),
    Row(answer=CountAfresh, verdict="not yet", mistake="count-afresh", why="steps forgotten"),
    Row(answer=EverybodyWrites, verdict="not yet", mistake="everybody-writes", why="copies"),
    Row(answer=FileOfEachRank, verdict="not yet", mistake="bound-to-its-mesh", why="what a rank held"),
    Row(answer=OldShare, verdict="not yet", mistake="old-share", why="of the new model"),
    Row(answer=NoCheckpoint, verdict="not yet", why="nothing"),
]
