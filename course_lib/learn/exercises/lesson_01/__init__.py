"""Lesson 01, one device: what a state weighs, a batch in micro-batches, a block run twice
(recomputation, or activation checkpointing), evaluation without keeping.
"""

from course_lib.learn.exercises.lesson_01.accumulate import ACCUMULATE
from course_lib.learn.exercises.lesson_01.evaluate import EVALUATE
from course_lib.learn.exercises.lesson_01.ledger import LEDGER
from course_lib.learn.exercises.lesson_01.quiz import QUIZ
from course_lib.learn.exercises.lesson_01.recompute import RECOMPUTE

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (LEDGER, ACCUMULATE, RECOMPUTE, EVALUATE)
