"""Lesson 00: dealing out data, a mean over all ranks, and a report that hangs."""

from course_lib.learn.exercises.lesson_00.mean import MEAN
from course_lib.learn.exercises.lesson_00.quiz import QUIZ
from course_lib.learn.exercises.lesson_00.report import REPORT
from course_lib.learn.exercises.lesson_00.share import SHARE

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (SHARE, MEAN, REPORT)
