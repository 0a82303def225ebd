"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from answers.lesson_10.right import choices, dispatch, join, room, stems, zigzag

__all__ = ["MEANS_NOTHING", "RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "10.join": join.ANSWERS,
    "10.zigzag": zigzag.ANSWERS,
    "10.stem": stems.ANSWERS,
    "10.choice": choices.ANSWERS,
    "10.dispatch": dispatch.ANSWERS,
    "10.room": room.ANSWERS,
}

MEANS_NOTHING: dict[str, dict[str, str]] = {
    "10.join": {
        "float64-inside": "nothing of it travels or is kept, and more digits within a call are no fault",
        "gives-an-input-where-it-is-equal": "the text does not ask for a copy, and no cell changes a pair in place",
    },
    "10.zigzag": {
        "kept-by-arguments": "no cell changes a rank's list, and the text does not ask for one that is nobody else's",
    },
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "10.join": join.SAME,
    "10.zigzag": zigzag.SAME,
    "10.stem": stems.SAME,
    "10.choice": choices.SAME,
    "10.dispatch": dispatch.SAME,
    "10.room": room.SAME,
}
