"""Lesson 06, model parallelism: the backward pass across ranks, where to cut, and two copies of one matrix."""

from course_lib.learn.exercises.lesson_06.backward import BACKWARD
from course_lib.learn.exercises.lesson_06.cut import CUT
from course_lib.learn.exercises.lesson_06.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_06.quiz import QUIZ
from course_lib.learn.exercises.lesson_06.tied import TIED

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (BACKWARD, CUT, TIED)
