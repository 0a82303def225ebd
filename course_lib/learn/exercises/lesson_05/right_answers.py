"""Lesson 05: right answers of other styles than the lesson's own. Not for learners: the tests hand them in."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_05 import right_optimizer

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "05.optimizer": right_optimizer.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {}
