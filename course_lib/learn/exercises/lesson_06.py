"""Lesson 06, model parallelism: the backward pass across ranks, where to cut, and two copies of one matrix."""

from course_lib.learn.exercises.lesson_06_parts.backward import BACKWARD
from course_lib.learn.exercises.lesson_06_parts.quiz import QUIZ
from course_lib.learn.exercises.lesson_06_parts.tied import TIED
from course_lib.learn.exercises.lesson_06_parts.where import CUT

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (BACKWARD, CUT, TIED)
