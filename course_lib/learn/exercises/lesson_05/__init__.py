"""Lesson 05, sharded data parallelism. Part a: an optimizer whose states are shared out. Part b: a unit that is whole
while it computes. Part d: the clip that every rank agrees on.
"""

from course_lib.learn.exercises.lesson_05.optimizer import OPTIMIZER
from course_lib.learn.exercises.lesson_05.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_05.quiz import QUIZ

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (OPTIMIZER,)
