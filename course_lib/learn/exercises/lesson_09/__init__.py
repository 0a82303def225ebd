"""Lesson 09, meshes. Part a: places. Part b: who holds what. Part c: one norm. Part d: three cuts at once."""

from course_lib.learn.exercises.lesson_09.norm import NORM
from course_lib.learn.exercises.lesson_09.predictions import PREDICTIONS

__all__ = ["EXERCISES", "PREDICTIONS"]

EXERCISES = (NORM,)
