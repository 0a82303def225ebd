"""09.mesh_shards: a learner's trainer on a mesh."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_09.mesh_builds.earlier import AllStates, GradientsToAll
from answers.lesson_09.mesh_builds.final import Final
from answers.lesson_09.mesh_builds.others import ByTheCoursesPipeline, FlatGroups, OneForwardOneBackward, ShareOfEach
from answers.lesson_09.mesh_builds.wrong_steps import StatesOnAll

ROWS = [
    Row(answer=Final, verdict="passed", why="GPipe by hand, one vector, a file of each stage"),
    Row(answer=OneForwardOneBackward, verdict="passed", why="1F1B by hand"),
    Row(answer=ByTheCoursesPipeline, verdict="passed", why="the course's runtime, a file of each slice"),
    Row(answer=ShareOfEach, verdict="passed", why="a share of each parameter, a file of each name"),
    Row(answer=FlatGroups, verdict="passed", why="axis by axis, by an all-to-all"),
    Row(answer=GradientsToAll, verdict="passed", why="gradients of all to all"),
    Row(answer=StatesOnAll, verdict="not yet", mistake="states-on-all", why="steps all"),
    Row(answer=AllStates, verdict="not yet", why="all states"),
]
