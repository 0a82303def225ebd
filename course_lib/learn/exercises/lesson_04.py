"""Lesson 04, DistributedDataParallel: gradients averaged, early buckets, a sampler, accumulation, drift."""

from course_lib.learn.exercises.lesson_04_parts.accumulate import ACCUMULATE
from course_lib.learn.exercises.lesson_04_parts.drift import DRIFT
from course_lib.learn.exercises.lesson_04_parts.gradients import GRADIENTS
from course_lib.learn.exercises.lesson_04_parts.overlap import OVERLAP
from course_lib.learn.exercises.lesson_04_parts.quiz import QUIZ
from course_lib.learn.exercises.lesson_04_parts.sampler import SAMPLER

__all__ = ["EXERCISES", "QUIZ"]

EXERCISES = (GRADIENTS, OVERLAP, SAMPLER, ACCUMULATE, DRIFT)
