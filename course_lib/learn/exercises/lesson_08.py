"""Lesson 08, tensor parallelism: a pair of cuts, the two gates, a split MLP, a split loss, and a norm that drifts."""

from course_lib.learn.exercises.lesson_08_parts.between import BETWEEN
from course_lib.learn.exercises.lesson_08_parts.gates import GATES
from course_lib.learn.exercises.lesson_08_parts.loss import LOSS
from course_lib.learn.exercises.lesson_08_parts.mlp import MLP
from course_lib.learn.exercises.lesson_08_parts.norm import NORM
from course_lib.learn.exercises.lesson_08_parts.quiz import QUIZ

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (BETWEEN, GATES, MLP, LOSS, NORM)
