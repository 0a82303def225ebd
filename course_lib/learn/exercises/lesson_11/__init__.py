"""Lesson 11, choosing. Part a: does it fit? Part b: how long? Part c: sick runs. Part d: runs of others."""

from course_lib.learn.exercises.lesson_11.cheapest import CHEAPEST
from course_lib.learn.exercises.lesson_11.data import DATA
from course_lib.learn.exercises.lesson_11.exposed import EXPOSED
from course_lib.learn.exercises.lesson_11.fits import FITS_EXERCISE
from course_lib.learn.exercises.lesson_11.loss import LOSS
from course_lib.learn.exercises.lesson_11.planner import PLANNER_STEPS
from course_lib.learn.exercises.lesson_11.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_11.quiz import QUIZ
from course_lib.learn.exercises.lesson_11.step import STEP

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (FITS_EXERCISE, LOSS, DATA, STEP, EXPOSED, CHEAPEST, *PLANNER_STEPS)
