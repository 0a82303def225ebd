"""07.design: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from course_lib.learn.exercises.lesson_07.design import _M, _MAX_IN_FLIGHT, _P
from course_lib.schedules import Action, Schedule, gpipe, one_f_one_b, placement, zero_bubble_h1


def _in_turn(warm_up: Callable[[int], int], *, kinds: str = "B") -> str:
    """Some forwards, then a forward and its backward (or the halves of it) in turn."""
    rows = []
    for stage in range(_P):
        first = min(warm_up(stage), _M)
        row = [Action("F", stage, i) for i in range(first)]
        for i in range(_M):
            row += [Action("F", stage, first + i)] * (first + i < _M)
            row += [Action(kind, stage, i) for kind in kinds]
        rows.append(tuple(row))
    return str(Schedule("of one's own", _M, placement(_P), tuple(rows)))


def _shuffled() -> str:
    words = str(gpipe(_P, _M)).splitlines()[1:]
    rows = [line.split()[1:] for line in words]
    random.Random(0).shuffle(rows[2])
    return "\n".join(" ".join(row) for row in rows)


EXERCISE = "07.design"
EXAMPLES: dict[str, Any] = {
    "another-size": str(one_f_one_b(_P, _M + 2)),
    "cannot-run": _shuffled(),
    "holds-everything": str(gpipe(_P, _M)),
    "as-1f1b": str(one_f_one_b(_P, _M)),
    "w-comes-too-late": str(zero_bubble_h1(_P, _M)),
    "too-many-forwards": _in_turn(lambda stage: _MAX_IN_FLIGHT, kinds="IW"),
    "whole-backwards": _in_turn(lambda stage: min(_P - 1 - stage, _MAX_IN_FLIGHT - 1)),
    "w-comes-at-once": _in_turn(lambda stage: min(_P - 1 - stage, _MAX_IN_FLIGHT - 1), kinds="IW"),
}
