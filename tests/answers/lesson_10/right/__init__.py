"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from answers.lesson_10.right import dispatch, join, room, zigzag

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "10.join": join.ANSWERS,
    "10.zigzag": zigzag.ANSWERS,
    "10.dispatch": dispatch.ANSWERS,
    "10.room": room.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "10.join": join.SAME,
    "10.zigzag": zigzag.SAME,
    "10.dispatch": dispatch.SAME,
    "10.room": room.SAME,
}
