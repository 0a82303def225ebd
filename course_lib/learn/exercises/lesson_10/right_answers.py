"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_10 import right_dispatch, right_join

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "10.join": right_join.ANSWERS,
    "10.dispatch": right_dispatch.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "10.join": right_join.SAME,
    "10.dispatch": right_dispatch.SAME,
}
