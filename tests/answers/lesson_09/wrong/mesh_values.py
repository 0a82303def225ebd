"""09.mesh_values: wrong answers, by the name of the mistake that each makes, and a right one by a forbidden way."""

from __future__ import annotations

from answers.lesson_09.mesh_builds.examples import examples_of
from answers.lesson_09.mesh_builds.wrong_steps import ByTheCourse

EXERCISE = "09.mesh_values"
EXAMPLES = examples_of(EXERCISE)
FORBIDDEN = ByTheCourse
