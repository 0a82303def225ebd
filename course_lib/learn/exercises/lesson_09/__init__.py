"""Lesson 09, meshes. Part a: places. Part b: who holds what. Part c: one norm. Part d: three cuts. Part e: a build."""

from course_lib.learn.exercises.lesson_09.assemble import ASSEMBLE
from course_lib.learn.exercises.lesson_09.deal import DEAL
from course_lib.learn.exercises.lesson_09.file import FILE
from course_lib.learn.exercises.lesson_09.mesh import MESH_STEPS
from course_lib.learn.exercises.lesson_09.norm import NORM
from course_lib.learn.exercises.lesson_09.order import ORDER
from course_lib.learn.exercises.lesson_09.piece import PIECE
from course_lib.learn.exercises.lesson_09.place import PLACE
from course_lib.learn.exercises.lesson_09.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_09.quiz import QUIZ
from course_lib.learn.exercises.lesson_09.seed import SEED

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (PLACE, ORDER, PIECE, DEAL, SEED, NORM, FILE, ASSEMBLE, *MESH_STEPS)
