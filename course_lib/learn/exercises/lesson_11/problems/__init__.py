"""Problems on paper of lesson 11: does it fit, how long does it take, and what does it cost at real size?"""

from course_lib.learn.exercises.lesson_11.problems.bill import days, dear, offer, whole
from course_lib.learn.exercises.lesson_11.problems.room import chunks, first, host

__all__ = ["PROBLEMS"]

PROBLEMS = (days, offer, host, chunks, first, dear, whole)
