"""Lesson 03, data parallelism in one process: replicas, threads, and weights that were saved under other names."""

from course_lib.learn.exercises.lesson_03.data_parallel import STEPS
from course_lib.learn.exercises.lesson_03.load import LOAD
from course_lib.learn.exercises.lesson_03.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_03.quiz import QUIZ
from course_lib.learn.exercises.lesson_03.replicas import REPLICAS
from course_lib.learn.exercises.lesson_03.threads import THREADS

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (REPLICAS, THREADS, LOAD, *STEPS)
