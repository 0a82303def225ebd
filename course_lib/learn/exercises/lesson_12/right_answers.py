"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_12 import (
    right_hierarchical,
    right_intervals,
    right_place,
    right_rendezvous,
)

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "12.place": right_place.ALL,
    "12.hierarchical": right_hierarchical.ALL,
    "12.rendezvous": right_rendezvous.ANSWERS,
    "12.interval": right_intervals.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "12.place": right_place.SAME,
    "12.hierarchical": right_hierarchical.SAME,
    "12.rendezvous": right_rendezvous.SAME,
    "12.interval": right_intervals.SAME,
}
