"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_09 import (
    right_assembled,
    right_norms,
    right_order,
    right_pieces,
    right_place,
)

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "09.place": right_place.ALL,
    "09.order": right_order.ALL,
    "09.piece": right_pieces.ALL,
    "09.norm": right_norms.ANSWERS,
    "09.assemble": right_assembled.ALL,
}
SAME_FUNCTION: dict[str, dict[str, str]] = {
    "09.place": right_place.SAME,
    "09.order": right_order.SAME,
    "09.piece": right_pieces.SAME,
    "09.norm": right_norms.SAME,
    "09.assemble": right_assembled.SAME,
}
