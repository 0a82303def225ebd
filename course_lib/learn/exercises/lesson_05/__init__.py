"""Lesson 05, sharded data parallelism. Part a: an optimizer whose states are shared out. Part b: a unit that is whole
while it computes. Part c: one that lets go. Part d: the order of a step. Part e: the clip that every rank agrees on,
and two mends. Part f: the sharded optimizer, built whole. Part g: the fully sharded wrapper, built whole. Part h: an
all-gather of weights in one byte each.
"""

from course_lib.learn.exercises.lesson_05.clip import CLIP
from course_lib.learn.exercises.lesson_05.fsdp import FSDP_STEPS
from course_lib.learn.exercises.lesson_05.layer import LAYER
from course_lib.learn.exercises.lesson_05.load import LOAD
from course_lib.learn.exercises.lesson_05.optimizer import OPTIMIZER
from course_lib.learn.exercises.lesson_05.order import ORDER
from course_lib.learn.exercises.lesson_05.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_05.quantized_gather import QUANTIZED_GATHER
from course_lib.learn.exercises.lesson_05.quiz import QUIZ
from course_lib.learn.exercises.lesson_05.unit import UNIT
from course_lib.learn.exercises.lesson_05.wrapped import WRAPPED
from course_lib.learn.exercises.lesson_05.zero import ZERO_STEPS

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (OPTIMIZER, UNIT, LAYER, ORDER, CLIP, LOAD, WRAPPED, *ZERO_STEPS, *FSDP_STEPS, QUANTIZED_GATHER)
