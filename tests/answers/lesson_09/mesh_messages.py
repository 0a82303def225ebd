"""09.mesh_messages: a learner's trainer on a mesh."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_09.mesh_builds.earlier import GradientsToAll, NoNorm
from answers.lesson_09.mesh_builds.final import Final
from answers.lesson_09.mesh_builds.others import ByTheCoursesPipeline, FlatGroups, OneForwardOneBackward, ShareOfEach
from answers.lesson_09.mesh_builds.wrong_steps import AlongSlices, TwiceAlongStages, WholeGradientToAll

ROWS = [
    Row(answer=Final, verdict="passed", why="GPipe by hand, one vector, a file of each stage"),
    Row(answer=OneForwardOneBackward, verdict="passed", why="1F1B by hand"),
    Row(answer=ByTheCoursesPipeline, verdict="passed", why="the course's runtime, a file of each slice"),
    Row(answer=ShareOfEach, verdict="passed", why="a share of each parameter, a file of each name"),
    Row(answer=FlatGroups, verdict="passed", why="axis by axis, by an all-to-all"),
    Row(answer=NoNorm, verdict="passed", why="no norm yet"),
    Row(answer=GradientsToAll, verdict="not yet", mistake="gradients-to-all", why="an all-reduce"),
    Row(answer=AlongSlices, verdict="not yet", mistake="talks-along-tp", why="parts summed"),
    Row(answer=TwiceAlongStages, verdict="not yet", mistake="talks-along-pp", why="activations twice"),
    Row(answer=WholeGradientToAll, verdict="not yet", mistake="talks-to-all", why="a vector to all"),
]
