"""What lesson 11 asks before a run, and tells after it: a file for each part."""

from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.exercises.lesson_11.predictions.fits import FITS
from course_lib.learn.exercises.lesson_11.predictions.others import OTHERS
from course_lib.learn.exercises.lesson_11.predictions.sick import SICK
from course_lib.learn.exercises.lesson_11.predictions.terms import TERMS
from course_lib.learn.exercises.lesson_11.predictions.time import TIME

__all__ = ["PREDICTIONS"]

PREDICTIONS: tuple[Asked, ...] = (*FITS, *TERMS, *TIME, *SICK, *OTHERS)
