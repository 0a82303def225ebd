"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from answers.lesson_12.right import hierarchical, intervals, place, rendezvous

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "12.place": place.ALL,
    "12.hierarchical": hierarchical.ALL,
    "12.rendezvous": rendezvous.ANSWERS,
    "12.interval": intervals.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "12.place": place.SAME,
    "12.hierarchical": hierarchical.SAME,
    "12.rendezvous": rendezvous.SAME,
    "12.interval": intervals.SAME,
}
