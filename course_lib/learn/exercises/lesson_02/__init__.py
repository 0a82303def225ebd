"""Lesson 02, collectives: a ring all-reduce, a broadcast along a tree, and an exchange that ends in a deadlock."""

from course_lib.learn.exercises.lesson_02.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_02.quiz import QUIZ
from course_lib.learn.exercises.lesson_02.ring import RING
from course_lib.learn.exercises.lesson_02.shift import SHIFT
from course_lib.learn.exercises.lesson_02.sums import STEPS
from course_lib.learn.exercises.lesson_02.tree import TREE

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (RING, TREE, SHIFT, *STEPS)
