"""08.split_memory: wrong answers, by the name of the mistake that each makes, and a forbidden right one."""

from __future__ import annotations

from answers.lesson_08.split_builds.examples import examples_of
from answers.lesson_08.split_builds.wrong_values import ByTheCourse

EXERCISE = "08.split_memory"
EXAMPLES = examples_of(EXERCISE)
FORBIDDEN = ByTheCourse
