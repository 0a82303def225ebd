"""What the clock of 13.own has seen of an answer: mistakes that show in how it measured, whatever it says."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.exercises.lesson_13.own.worlds import most_measured

__all__ = ["OTHER_COUNT", "did_assert", "did_go_on", "left_sizes_out"]

OTHER_COUNT = "other-count"  # a kind of difference: more or fewer measurements than were asked for


def _measured(evidence: Evidence) -> list[tuple[int, list[tuple[int, int]]]]:
    """By world: the pairs asked for, and for each size how often it and its double were measured."""
    return [
        (outcome.expected["pairs"], list(outcome.got["measured"].values()))
        for outcome in evidence.outcomes
        if isinstance(outcome.got, Mapping)
    ]


def did_go_on(evidence: Evidence) -> bool:
    """Whether, of the same number of pairs asked for, some sizes got about that many and others far more."""
    seen: dict[int, set[int]] = {}
    for pairs, measured in _measured(evidence):
        seen.setdefault(pairs, set()).update(count for counts in measured for count in counts)
    return any(
        max(counts) > most_measured(pairs) and any(pairs <= count <= most_measured(pairs) for count in counts)
        for pairs, counts in seen.items()
    )


def left_sizes_out(evidence: Evidence) -> bool:
    return any(any(map(any, measured)) and not all(map(any, measured)) for _, measured in _measured(evidence))


def did_assert(evidence: Evidence) -> bool:
    return any(outcome.error is not None and outcome.error.kind == "AssertionError" for outcome in evidence.outcomes)
