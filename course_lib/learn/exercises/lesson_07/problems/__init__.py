"""Problems on paper of lesson 07: pipelines, their bubbles and their memory at real size."""

from course_lib.learn.exercises.lesson_07.problems.bubble import grow, last, pays
from course_lib.learn.exercises.lesson_07.problems.memory import held, room
from course_lib.learn.exercises.lesson_07.problems.messages import every, message

__all__ = ["PROBLEMS"]

PROBLEMS = (held, message, room, grow, pays, every, last)
