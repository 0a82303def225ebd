"""Right answers of other styles, which the judge of this lesson accepts, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_13 import right_own

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {"13.own": right_own.ANSWERS}
SAME_FUNCTION: dict[str, dict[str, str]] = {"13.own": right_own.SAME}
