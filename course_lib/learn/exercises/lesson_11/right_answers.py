"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_11 import right_cheapest, right_exposed, right_fits, right_steps

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "11.fits": right_fits.ANSWERS,
    "11.step": right_steps.ALL,
    "11.exposed": right_exposed.ANSWERS,
    "11.cheapest": right_cheapest.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "11.fits": right_fits.SAME,
    "11.step": right_steps.SAME,
    "11.exposed": right_exposed.SAME,
    "11.cheapest": right_cheapest.SAME,
}
