"""Lesson 14, the capstone. Part a: the job. Part b: defend it."""

from course_lib.learn.exercises.lesson_14.one import ONE
from course_lib.learn.exercises.lesson_14.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_14.quiz import QUIZ
from course_lib.learn.exercises.lesson_14.three import THREE
from course_lib.learn.exercises.lesson_14.two import TWO

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (ONE, TWO, THREE)
