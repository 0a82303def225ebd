"""Lesson 03, data parallelism in one process: replicas, threads, and weights that were saved under other names."""

from course_lib.learn.exercises.lesson_03_parts.load import LOAD
from course_lib.learn.exercises.lesson_03_parts.quiz import QUIZ
from course_lib.learn.exercises.lesson_03_parts.replicas import REPLICAS
from course_lib.learn.exercises.lesson_03_parts.threads import THREADS

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (REPLICAS, THREADS, LOAD)
