"""What lesson 05 asks before a run, and tells after it: a file for each part."""

from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.exercises.lesson_05.predictions.links import LINKS
from course_lib.learn.exercises.lesson_05.predictions.model import ONE_MODEL
from course_lib.learn.exercises.lesson_05.predictions.precision import PRECISION
from course_lib.learn.exercises.lesson_05.predictions.refill import REFILL
from course_lib.learn.exercises.lesson_05.predictions.states import STATES
from course_lib.learn.exercises.lesson_05.predictions.units import UNITS

__all__ = ["PREDICTIONS"]

PREDICTIONS: tuple[Asked, ...] = (*STATES, *UNITS, *LINKS, *ONE_MODEL, *REFILL, *PRECISION)
