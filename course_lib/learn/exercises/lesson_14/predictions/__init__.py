"""What lesson 14 asks before a run, and tells after it: a file for each part."""

from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.exercises.lesson_14.predictions.capstone import CAPSTONE
from course_lib.learn.exercises.lesson_14.predictions.defend import DEFEND

__all__ = ["PREDICTIONS"]

PREDICTIONS: tuple[Asked, ...] = (*CAPSTONE, *DEFEND)
