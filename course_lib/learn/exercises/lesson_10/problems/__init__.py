"""Problems on paper of lesson 10: long context and experts at real size."""

from course_lib.learn.exercises.lesson_10.problems.context import enough, fewer, order, stretch
from course_lib.learn.exercises.lesson_10.problems.experts import busy, held, journeys

__all__ = ["PROBLEMS"]

PROBLEMS = (fewer, held, stretch, enough, journeys, order, busy)
