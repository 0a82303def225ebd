"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_09 import right_assembled

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {"09.assemble": right_assembled.ALL}

SAME_FUNCTION: dict[str, dict[str, str]] = {"09.assemble": right_assembled.SAME}
