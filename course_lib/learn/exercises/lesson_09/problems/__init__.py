"""Problems on paper of lesson 09: meshes of many nodes, by memory, messages and time."""

from course_lib.learn.exercises.lesson_09.problems.jobs import faster, works
from course_lib.learn.exercises.lesson_09.problems.messages import border, gathers, turned
from course_lib.learn.exercises.lesson_09.problems.state import moment, written

__all__ = ["PROBLEMS"]

PROBLEMS = (written, moment, border, turned, faster, gathers, works)
