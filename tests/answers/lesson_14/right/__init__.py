"""Right answers of other styles, which the judges of this lesson accept."""

from __future__ import annotations

from typing import Any

from answers.lesson_14.right import runs
from answers.lesson_14.right.same_function import SAME_FUNCTION

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = dict.fromkeys(("14.one", "14.two", "14.three"), runs.ALL)
