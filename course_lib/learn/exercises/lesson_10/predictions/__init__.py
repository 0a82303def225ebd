"""What lesson 10 asks before a run, and tells after it: a file for each part."""

from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.exercises.lesson_10.predictions.balance import BALANCE
from course_lib.learn.exercises.lesson_10.predictions.busy import BUSY
from course_lib.learn.exercises.lesson_10.predictions.exchange import EXCHANGE
from course_lib.learn.exercises.lesson_10.predictions.experts import EXPERTS
from course_lib.learn.exercises.lesson_10.predictions.packed import PACKED
from course_lib.learn.exercises.lesson_10.predictions.ring import RING
from course_lib.learn.exercises.lesson_10.predictions.small import SMALL

__all__ = ["PREDICTIONS"]

PREDICTIONS: tuple[Asked, ...] = (*RING, *BALANCE, *EXPERTS, *BUSY, *SMALL, *EXCHANGE, *PACKED)
