"""What lesson 09 asks before a run, and tells after it: a file for each part."""

from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.exercises.lesson_09.predictions.assembled import ASSEMBLED
from course_lib.learn.exercises.lesson_09.predictions.norm import NORM
from course_lib.learn.exercises.lesson_09.predictions.pieces import PIECES
from course_lib.learn.exercises.lesson_09.predictions.places import PLACES

__all__ = ["PREDICTIONS"]

PREDICTIONS: tuple[Asked, ...] = (*PLACES, *PIECES, *NORM, *ASSEMBLED)
