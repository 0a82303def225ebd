"""What lesson 13 asks before a run, and tells after it: a file for each part."""

from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.exercises.lesson_13.predictions.claims import CLAIM_BETS

__all__ = ["PREDICTIONS"]

PREDICTIONS: tuple[Asked, ...] = (*CLAIM_BETS,)
