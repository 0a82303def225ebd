"""07.gpipe: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_07.gpipe import Table, _table
from course_lib.schedules import gpipe


def _late(kind: str, stage: int, i: int, p: int, m: int) -> int:
    return stage + i if kind == "F" else m + 2 * (p - 1) + (p - 1 - stage) + i


def _one_f_one_b(num_stages: int, num_micro_batches: int) -> Table:
    from course_lib.schedules import one_f_one_b

    rows = one_f_one_b(num_stages, num_micro_batches).aligned().actions
    return [" ".join("." if cell is None else cell.short for cell in row) for row in rows]


def _by_the_library(num_stages: int, num_micro_batches: int) -> Table:
    rows = gpipe(num_stages, num_micro_batches).aligned().actions
    return [" ".join("." if cell is None else cell.short for cell in row) for row in rows]


EXERCISE = "07.gpipe"
EXAMPLES: dict[str, Any] = {
    "waits-for-nothing": _table(_late),
    "another-schedule": _one_f_one_b,
}


FORBIDDEN = _by_the_library
