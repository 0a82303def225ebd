"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from answers.lesson_11.right import cheapest, data, exposed, fits, losses, steps

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "11.fits": fits.ANSWERS,
    "11.loss": losses.ANSWERS,
    "11.data": data.ANSWERS,
    "11.step": steps.ALL,
    "11.exposed": exposed.ANSWERS,
    "11.cheapest": cheapest.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "11.fits": fits.SAME,
    "11.loss": losses.SAME,
    "11.data": data.SAME,
    "11.step": steps.SAME,
    "11.exposed": exposed.SAME,
    "11.cheapest": cheapest.SAME,
}
