"""Lesson 10, long contexts and experts. Part a: the ring. Part b: balance. Part c: experts. Part d: their balance."""

from course_lib.learn.exercises.lesson_10.dispatch import DISPATCH
from course_lib.learn.exercises.lesson_10.join import JOIN
from course_lib.learn.exercises.lesson_10.predictions import PREDICTIONS

__all__ = ["EXERCISES", "PREDICTIONS"]

EXERCISES = (JOIN, DISPATCH)
