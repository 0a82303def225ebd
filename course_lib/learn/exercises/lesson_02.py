"""Lesson 02, collectives: a ring all-reduce, a broadcast along a tree, and an exchange that stands still."""

from course_lib.learn.exercises.lesson_02_parts.quiz import QUIZ
from course_lib.learn.exercises.lesson_02_parts.ring import RING
from course_lib.learn.exercises.lesson_02_parts.shift import SHIFT
from course_lib.learn.exercises.lesson_02_parts.tree import TREE

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (RING, TREE, SHIFT)
