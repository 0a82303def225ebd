"""Lesson 07, pipelines: three schedules as tables, a backward in two halves, and two faults to mend."""

from course_lib.learn.exercises.lesson_07_parts.design import DESIGN
from course_lib.learn.exercises.lesson_07_parts.gpipe import GPIPE
from course_lib.learn.exercises.lesson_07_parts.halves import HALVES
from course_lib.learn.exercises.lesson_07_parts.loss import LOSS
from course_lib.learn.exercises.lesson_07_parts.one_f_one_b import ONE_F_ONE_B
from course_lib.learn.exercises.lesson_07_parts.quiz import QUIZ
from course_lib.learn.exercises.lesson_07_parts.sync import SYNC

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (GPIPE, ONE_F_ONE_B, HALVES, DESIGN, SYNC, LOSS)
