"""What the trials of lesson 01 have in common: how their reports are compared, and how a mistake is known by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence, Exercise
from course_lib.learn.judging.compare import Compare, close_to

__all__ = ["BESIDES", "behaves_like", "first_of", "told"]

_NEARLY = close_to(1e-5)
BESIDES = "what it did besides"  # the entry of a report that is a sentence, or empty


def told(compare: Compare) -> Compare:
    """A comparison of reports: what an answer did besides comes first, since the numbers often follow from it."""

    def difference(expected: Mapping[str, Any], got: Mapping[str, Any]) -> str:
        return got[BESIDES] or compare(expected, got)

    return difference


def first_of(*sentences: str) -> str:
    """The first that is not empty."""
    return next((sentence for sentence in sentences if sentence), "")


@lru_cache(maxsize=64)
def _given(exercise: Exercise, variant: Callable[..., Any]) -> Evidence:
    return exercise.judge(variant, ())


def behaves_like(exercise: Exercise, seen: Evidence, *variants: Callable[..., Any], compare: Compare = _NEARLY) -> bool:
    """Whether an answer gave what one of these would have given, in every case."""
    for variant in variants:
        other = _given(exercise, variant)
        pairs = list(zip(seen.outcomes, other.outcomes, strict=True))
        if all(a.error is None and b.error is None and not compare(b.got, a.got) for a, b in pairs):
            return True
    return False
