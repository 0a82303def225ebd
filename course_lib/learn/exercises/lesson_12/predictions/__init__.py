"""What lesson 12 asks before a run, and tells after it: a file for each part."""

from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.exercises.lesson_12.predictions.faults import FAULTS
from course_lib.learn.exercises.lesson_12.predictions.nodes import NODES
from course_lib.learn.exercises.lesson_12.predictions.take_along import TAKE_ALONG
from course_lib.learn.exercises.lesson_12.predictions.thousands import THOUSANDS
from course_lib.learn.exercises.lesson_12.predictions.wrong_numbers import WRONG_NUMBERS

__all__ = ["PREDICTIONS"]

PREDICTIONS: tuple[Asked, ...] = (*NODES, *FAULTS, *THOUSANDS, *TAKE_ALONG, *WRONG_NUMBERS)
