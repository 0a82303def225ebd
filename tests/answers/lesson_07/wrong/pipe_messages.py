"""07.pipe_messages: wrong answers, by the name of the mistake that each makes, and a right one by a forbidden way."""

from __future__ import annotations

from answers.lesson_07.pipe_builds.examples import examples_of
from answers.lesson_07.pipe_builds.wrong_models import ByTheCourse

EXERCISE = "07.pipe_messages"
EXAMPLES = examples_of(EXERCISE)
FORBIDDEN = ByTheCourse
