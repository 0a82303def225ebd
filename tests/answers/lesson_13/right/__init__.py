"""Right answers of other styles, which the judge of this lesson accepts, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from answers.lesson_13.right import own

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {"13.own": own.ANSWERS}
SAME_FUNCTION: dict[str, dict[str, str]] = {"13.own": own.SAME}
