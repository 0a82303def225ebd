"""06.cut: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_06.cut import Costs, _best_by, _loads
from course_lib.parallel.model import split_evenly


def _loads_of_the_best(costs: Costs, num_parts: int) -> list[float]:
    return _loads(costs, _best_by(max)(costs, num_parts))


def by_the_library(costs, num_parts):
    return [len(part) for part in split_evenly(costs, num_parts)]


EXERCISE = "06.cut"
EXAMPLES: dict[str, Any] = {
    "costs-not-counts": _loads_of_the_best,
    "loses-pieces": lambda costs, num_parts: [len(costs) // num_parts] * num_parts,
}


FORBIDDEN = by_the_library
