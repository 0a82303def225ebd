"""09.mesh_stages: a learner's trainer on a mesh."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_09.mesh_builds.earlier import AllStates, OnlySlices
from answers.lesson_09.mesh_builds.final import Final
from answers.lesson_09.mesh_builds.others import ByTheCoursesPipeline, FlatGroups, OneForwardOneBackward, ShareOfEach
from answers.lesson_09.mesh_builds.wrong_steps import EvenPieces, LossOfDataAlone, MicroBatchesAddUp, ReceivesFirst

ROWS = [
    Row(answer=Final, verdict="passed", why="GPipe by hand, one vector, a file of each stage"),
    Row(answer=OneForwardOneBackward, verdict="passed", why="1F1B by hand"),
    Row(answer=ByTheCoursesPipeline, verdict="passed", why="the course's runtime, a file of each slice"),
    Row(answer=ShareOfEach, verdict="passed", why="a share of each parameter, a file of each name"),
    Row(answer=FlatGroups, verdict="passed", why="axis by axis, by an all-to-all"),
    Row(answer=AllStates, verdict="passed", why="all states on all ranks"),
    Row(answer=LossOfDataAlone, verdict="not yet", mistake="none-but-the-last", why="0 on the first stage"),
    Row(answer=MicroBatchesAddUp, verdict="not yet", mistake="micro-batches-add-up", why="a sum"),
    Row(answer=ReceivesFirst, verdict="not yet", mistake="ranks-wait", why="all receive"),
    Row(answer=EvenPieces, verdict="not yet", mistake="another-part", why="as many pieces"),
    Row(answer=OnlySlices, verdict="not yet", why="no stages"),
]
