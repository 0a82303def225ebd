"""Recognisers of answers on ranks that end with an error: ranks that wait for each other, and what is raised first."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.judging.report import Recogniser

__all__ = ["error_says", "hangs_in", "is_deadlock", "raised_first_in"]

_DEADLOCKS = ("RankTimeout", "RankFailed")


def is_deadlock(evidence: Evidence) -> bool:
    """Whether ranks waited for each other, or for one that had ended."""
    return evidence.error is not None and evidence.error.kind in _DEADLOCKS


def hangs_in(*kinds: str) -> Recogniser:
    """Whether ranks waited for each other, first in one of these cases."""

    def recognise(evidence: Evidence) -> bool:
        ended = [one for one in evidence.wrong if one.error is not None]
        return is_deadlock(evidence) and ended[0].case.startswith(kinds)

    return recognise


def raised_first_in(*kinds: str) -> Recogniser:
    """Whether the first thing that is wrong is an error in one of these cases, and no deadlock."""

    def recognise(evidence: Evidence) -> bool:
        first = next(iter(evidence.wrong), None)
        return (
            first is not None and first.error is not None and not is_deadlock(evidence) and first.case.startswith(kinds)
        )

    return recognise


def error_says(*words: str) -> Recogniser:
    """Whether the error has one of these words, which are PyTorch's or Python's own."""
    return lambda evidence: evidence.error is not None and any(word in evidence.error.message for word in words)
