"""Lesson 08, tensor parallelism: a pair of cuts, the two gates, a split MLP, a split loss, and a norm that drifts."""

from course_lib.learn.exercises.lesson_08.between import BETWEEN
from course_lib.learn.exercises.lesson_08.gates import GATES
from course_lib.learn.exercises.lesson_08.loss import LOSS
from course_lib.learn.exercises.lesson_08.mlp import MLP
from course_lib.learn.exercises.lesson_08.norm import NORM
from course_lib.learn.exercises.lesson_08.quiz import QUIZ

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (BETWEEN, GATES, MLP, LOSS, NORM)
