"""Lesson 08, tensor parallelism. Part a: a pair of cuts, two gates, a split MLP. Part b: heads, a table of tokens, a
loss. Part c: a norm that drifts, two gates along positions, a norm that drifts there. Part d: gathered logits. Part e:
a transformer, built whole.
"""

from course_lib.learn.exercises.lesson_08.along import ALONG
from course_lib.learn.exercises.lesson_08.between import BETWEEN
from course_lib.learn.exercises.lesson_08.embedding import EMBEDDING
from course_lib.learn.exercises.lesson_08.gates import GATES
from course_lib.learn.exercises.lesson_08.heads import HEADS
from course_lib.learn.exercises.lesson_08.logits import LOGITS
from course_lib.learn.exercises.lesson_08.loss import LOSS
from course_lib.learn.exercises.lesson_08.mlp import MLP
from course_lib.learn.exercises.lesson_08.norm import NORM
from course_lib.learn.exercises.lesson_08.positions import POSITIONS
from course_lib.learn.exercises.lesson_08.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_08.quiz import QUIZ
from course_lib.learn.exercises.lesson_08.split import SPLIT_STEPS

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (BETWEEN, GATES, MLP, HEADS, EMBEDDING, LOSS, NORM, ALONG, POSITIONS, LOGITS, *SPLIT_STEPS)
