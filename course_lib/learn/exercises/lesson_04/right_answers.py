"""Lesson 04: right answers of other styles than the lesson's own. Not for learners: the tests hand them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.exercises.lesson_04 import (
    right_accumulate,
    right_drift,
    right_gradients,
    right_overlap,
    right_sampler,
)

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any] | Any, ...]] = {
    "04.gradients": right_gradients.ANSWERS,
    "04.overlap": right_overlap.ANSWERS,
    "04.sampler": right_sampler.ANSWERS,
    "04.accumulate": right_accumulate.ANSWERS,
    "04.drift": right_drift.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {}
