"""10.ring_awkward: wrong answers, by the name of the mistake that each makes, and a right one by a forbidden way."""

from __future__ import annotations

from answers.lesson_10.ring_builds.examples import examples_of
from answers.lesson_10.ring_builds.wrong_costs import ByTheCourse

EXERCISE = "10.ring_awkward"
EXAMPLES = examples_of(EXERCISE)
FORBIDDEN = ByTheCourse
