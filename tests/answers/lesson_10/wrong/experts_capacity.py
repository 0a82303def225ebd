"""10.experts_capacity: wrong answers, by the name of their mistake, and a right one by a forbidden way."""

from __future__ import annotations

from answers.lesson_10.expert_builds.examples import examples_of
from answers.lesson_10.expert_builds.wrong_costs import ByTheCourse

EXERCISE = "10.experts_capacity"
EXAMPLES = examples_of(EXERCISE)
FORBIDDEN = ByTheCourse
