"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from answers.lesson_09.right import assembled, deals, files, norms, order, pieces, place, seeds

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "09.place": place.ALL,
    "09.order": order.ALL,
    "09.piece": pieces.ALL,
    "09.deal": deals.ANSWERS,
    "09.seed": seeds.ANSWERS,
    "09.norm": norms.ANSWERS,
    "09.file": files.ANSWERS,
    "09.assemble": assembled.ALL,
}
SAME_FUNCTION: dict[str, dict[str, str]] = {
    "09.place": place.SAME,
    "09.order": order.SAME,
    "09.piece": pieces.SAME,
    "09.deal": deals.SAME,
    "09.seed": seeds.SAME,
    "09.norm": norms.SAME,
    "09.file": files.SAME,
    "09.assemble": assembled.SAME,
}
