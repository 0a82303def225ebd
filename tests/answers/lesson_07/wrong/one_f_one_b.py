"""07.1f1b: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_07.one_f_one_b import Row, _order
from course_lib.schedules import one_f_one_b


def _by_the_library(stage: int, num_stages: int, num_micro_batches: int) -> Row:
    return [action.short for action in one_f_one_b(num_stages, num_micro_batches).rows[stage]]


EXERCISE = "07.1f1b"
EXAMPLES: dict[str, Any] = {
    "few-micro-batches": _order(lambda s, p, m: p - 1 - s, cap=False),
    "holds-another-number": _order(lambda s, p, m: 2 * (p - 1 - s)),
}


FORBIDDEN = _by_the_library
