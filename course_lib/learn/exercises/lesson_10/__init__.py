"""Lesson 10, long contexts and experts.

Part a: the ring. Part b: balance. Part c: experts. Part d: their balance. Part e: exchanges that hide. Part f: many
small experts. Part g: packed documents. Part h: ring attention, built. Part i: a layer of experts, built.
"""

from course_lib.learn.exercises.lesson_10.choice import CHOICE
from course_lib.learn.exercises.lesson_10.dispatch import DISPATCH
from course_lib.learn.exercises.lesson_10.documents import DOCUMENTS
from course_lib.learn.exercises.lesson_10.expert_layer import EXPERTS_STEPS
from course_lib.learn.exercises.lesson_10.interleave import INTERLEAVE
from course_lib.learn.exercises.lesson_10.join import JOIN
from course_lib.learn.exercises.lesson_10.once_a_node import ONCE_A_NODE
from course_lib.learn.exercises.lesson_10.part_quizzes import PART_QUIZZES
from course_lib.learn.exercises.lesson_10.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_10.quiz import QUESTIONS
from course_lib.learn.exercises.lesson_10.ring import RING_STEPS
from course_lib.learn.exercises.lesson_10.room import ROOM
from course_lib.learn.exercises.lesson_10.stem import STEM
from course_lib.learn.exercises.lesson_10.zigzag import ZIGZAG

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (
    *(JOIN, ZIGZAG, STEM, CHOICE, DISPATCH, ROOM, ONCE_A_NODE, INTERLEAVE, DOCUMENTS),
    *RING_STEPS,
    *EXPERTS_STEPS,
)
QUIZ = (*QUESTIONS, *PART_QUIZZES)
