"""09.mesh_norm: a learner's trainer on a mesh."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_09.mesh_builds.earlier import NoCheckpoint, NoNorm
from answers.lesson_09.mesh_builds.final import Final
from answers.lesson_09.mesh_builds.others import ByTheCoursesPipeline, FlatGroups, OneForwardOneBackward, ShareOfEach
from answers.lesson_09.mesh_builds.wrong_later import CopiesCounted, LimitsItsOwn, NoLimit, NormAfterwards, OwnNorm

ROWS = [
    Row(answer=Final, verdict="passed", why="GPipe by hand, one vector, a file of each stage"),
    Row(answer=OneForwardOneBackward, verdict="passed", why="1F1B by hand"),
    Row(answer=ByTheCoursesPipeline, verdict="passed", why="the course's runtime, a file of each slice"),
    Row(answer=ShareOfEach, verdict="passed", why="a share of each parameter, a file of each name"),
    Row(answer=FlatGroups, verdict="passed", why="axis by axis, by an all-to-all"),
    Row(answer=NoCheckpoint, verdict="passed", why="nothing is saved"),
    Row(answer=CopiesCounted, verdict="not yet", mistake="copies-counted", why="each holder"),
    Row(answer=OwnNorm, verdict="not yet", mistake="own-norm", why="its share"),
    Row(answer=NormAfterwards, verdict="not yet", mistake="norm-after-the-clip", why="after the clip"),
    Row(answer=NoLimit, verdict="not yet", mistake="no-limit", why="none"),
    Row(answer=LimitsItsOwn, verdict="not yet", mistake="another-factor", why="each its own"),
    Row(answer=NoNorm, verdict="not yet", why="None"),
]
