"""Lesson 07, pipelines: three tables, a backward in two halves, the loop over a row, and two faults to mend. Part d: a
runtime, built whole. Part e: a program that makes tables under a limit of memory.
"""

from course_lib.learn.exercises.lesson_07.design import DESIGN
from course_lib.learn.exercises.lesson_07.gpipe import GPIPE
from course_lib.learn.exercises.lesson_07.halves import HALVES
from course_lib.learn.exercises.lesson_07.loss import LOSS
from course_lib.learn.exercises.lesson_07.one_f_one_b import ONE_F_ONE_B
from course_lib.learn.exercises.lesson_07.pipe import PIPE_STEPS
from course_lib.learn.exercises.lesson_07.predictions.clinic import PREDICTIONS
from course_lib.learn.exercises.lesson_07.quiz import QUIZ
from course_lib.learn.exercises.lesson_07.run import RUN
from course_lib.learn.exercises.lesson_07.search import SEARCH
from course_lib.learn.exercises.lesson_07.sync import SYNC

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (GPIPE, ONE_F_ONE_B, HALVES, DESIGN, RUN, SYNC, LOSS, *PIPE_STEPS, SEARCH)
