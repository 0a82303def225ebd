"""Lesson 06, model parallelism: the backward pass across ranks, where to cut, and two copies of one matrix."""

from course_lib.learn.exercises.lesson_06.backward import BACKWARD
from course_lib.learn.exercises.lesson_06.quiz import QUIZ
from course_lib.learn.exercises.lesson_06.tied import TIED
from course_lib.learn.exercises.lesson_06.where import CUT

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (BACKWARD, CUT, TIED)
