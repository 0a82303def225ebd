"""Lesson 12, beyond one machine. Part a: two nodes. Part b: ranks die. Part c: thousands. Part d: take it along.
Part e: wrong numbers. Part f: a job that outlives its ranks.
"""

from course_lib.learn.exercises.lesson_12.hierarchical import HIERARCHICAL
from course_lib.learn.exercises.lesson_12.interval import INTERVAL
from course_lib.learn.exercises.lesson_12.job import JOB_STEPS
from course_lib.learn.exercises.lesson_12.place import NODE_PLACES
from course_lib.learn.exercises.lesson_12.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_12.quiz import QUIZ
from course_lib.learn.exercises.lesson_12.rendezvous import RENDEZVOUS
from course_lib.learn.exercises.lesson_12.replicas import REPLICAS

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (NODE_PLACES, HIERARCHICAL, RENDEZVOUS, INTERVAL, REPLICAS, *JOB_STEPS)
