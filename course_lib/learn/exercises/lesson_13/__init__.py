"""Lesson 13, claims on trial: an article, or two, for each part, and in part d a claim of one's own."""

from course_lib.learn.exercises.lesson_13.own import OWN
from course_lib.learn.exercises.lesson_13.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_13.quiz import QUIZ

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (OWN,)
