"""Problems on paper of lesson 12: many nodes, failures and checkpoints at real size."""

from course_lib.learn.exercises.lesson_12.problems.failures import often, patience, quiet, restart, storage
from course_lib.learn.exercises.lesson_12.problems.nodes import shards, storeys

__all__ = ["PROBLEMS"]

PROBLEMS = (quiet, patience, often, shards, storage, storeys, restart)
