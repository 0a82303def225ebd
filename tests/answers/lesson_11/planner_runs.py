"""11.planner_runs: a learner's planner."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_11.planner_builds.parted import Parted
from answers.lesson_11.planner_builds.styles import ByFunctions, InLoops

ROWS = [
    Row(answer=ByFunctions, verdict="passed", why="functions beside the class, kept results, least squares"),
    Row(answer=InLoops, verdict="passed", why="slot after slot, round after round"),
    Row(answer=Parted, verdict="passed", why="a method for each formula"),
]
