"""09.mesh_awkward: a learner's trainer on a mesh."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_09.mesh_builds.earlier import PlainModels
from answers.lesson_09.mesh_builds.final import Final
from answers.lesson_09.mesh_builds.others import ByTheCoursesPipeline, FlatGroups, OneForwardOneBackward, ShareOfEach
from answers.lesson_09.mesh_builds.wrong_later import (
    AllStagesLearn,
    EndsApart,
    EndsCountTwice,
    FrozenAreNotSaved,
    FrozenDecay,
    MeanOfMeans,
    NeedsStates,
    TwoAtLeast,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="GPipe by hand, one vector, a file of each stage"),
    Row(answer=OneForwardOneBackward, verdict="passed", why="1F1B by hand"),
    Row(answer=ByTheCoursesPipeline, verdict="passed", why="the course's runtime, a file of each slice"),
    Row(answer=ShareOfEach, verdict="passed", why="a share of each parameter, a file of each name"),
    Row(answer=FlatGroups, verdict="passed", why="axis by axis, by an all-to-all"),
    Row(answer=EndsCountTwice, verdict="not yet", mistake="ends-count-twice", why="two matrices"),
    Row(answer=EndsApart, verdict="not yet", mistake="ends-apart", why="no sum"),
    Row(answer=AllStagesLearn, verdict="not yet", mistake="a-stage-learns-nothing", why="no parameters"),
    Row(answer=FrozenDecay, verdict="not yet", mistake="frozen-weights", why="they shrink"),
    Row(answer=FrozenAreNotSaved, verdict="not yet", mistake="frozen-weights", why="of the new model"),
    Row(answer=MeanOfMeans, verdict="not yet", mistake="shares-count-alike", why="a mean of means"),
    Row(answer=NeedsStates, verdict="not yet", mistake="needs-states", why="an error"),
    Row(answer=TwoAtLeast, verdict="not yet", mistake="not-alone", why="an error"),
    Row(answer=PlainModels, verdict="not yet", why="no tied matrix"),
]
