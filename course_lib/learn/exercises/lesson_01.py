"""Lesson 01, one device: what a state weighs, a batch in pieces, a block run twice, evaluation without keeping."""

from course_lib.learn.exercises.lesson_01_parts.accumulate import ACCUMULATE
from course_lib.learn.exercises.lesson_01_parts.evaluate import EVALUATE
from course_lib.learn.exercises.lesson_01_parts.ledger import LEDGER
from course_lib.learn.exercises.lesson_01_parts.quiz import QUIZ
from course_lib.learn.exercises.lesson_01_parts.recompute import RECOMPUTE

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (LEDGER, ACCUMULATE, RECOMPUTE, EVALUATE)
