"""Lesson 04, DistributedDataParallel: gradients averaged, early buckets, a sampler, accumulation, drift, a trace, and
the loss per token.
"""

from course_lib.learn.exercises.lesson_04.accumulate import ACCUMULATE
from course_lib.learn.exercises.lesson_04.ddp import DDP_STEPS
from course_lib.learn.exercises.lesson_04.drift import DRIFT
from course_lib.learn.exercises.lesson_04.gradients import GRADIENTS
from course_lib.learn.exercises.lesson_04.overlap import OVERLAP
from course_lib.learn.exercises.lesson_04.predictions import PREDICTIONS
from course_lib.learn.exercises.lesson_04.quiz import QUIZ
from course_lib.learn.exercises.lesson_04.sampler import SAMPLER
from course_lib.learn.exercises.lesson_04.trace_buckets import TRACE_BUCKETS
from course_lib.learn.exercises.lesson_04.trace_overlap import TRACE_OVERLAP
from course_lib.learn.exercises.lesson_04.valid_tokens import VALID_TOKENS

__all__ = ["EXERCISES", "PREDICTIONS", "QUIZ"]

EXERCISES = (GRADIENTS, OVERLAP, SAMPLER, ACCUMULATE, DRIFT, *DDP_STEPS, TRACE_BUCKETS, TRACE_OVERLAP, VALID_TOKENS)
