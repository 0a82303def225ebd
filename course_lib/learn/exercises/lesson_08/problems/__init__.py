"""Problems on paper of lesson 08: tensor parallelism at real size."""

from course_lib.learn.exercises.lesson_08.problems.amounts import even, scores
from course_lib.learn.exercises.lesson_08.problems.links import across, speed, width
from course_lib.learn.exercises.lesson_08.problems.memory import left, spare

__all__ = ["PROBLEMS"]

PROBLEMS = (scores, even, spare, speed, width, across, left)
