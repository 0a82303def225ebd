"""Fixtures of the tests of a learner's own library."""

from own_library import anna, learners

__all__ = ["anna", "learners"]
