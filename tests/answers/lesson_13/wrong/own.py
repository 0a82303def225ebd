"""13.own: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course_lib.learn.exercises.lesson_13.own.worlds import LEAST, MOST, OPEN
from course_lib.learn.exercises.lesson_13.own.wrong_answers import TimeOf, _bears_out, _paired, _quartiles, _twice


def asserts(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    verdict, middles = _twice(time_s, sizes, pairs)
    for middle in middles.values():
        assert LEAST <= middle <= MOST, f"not twice as long: {middle:.2f}"
    return verdict, middles


def until_it_is_clear(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def enough(clock: TimeOf, size: int, pairs: int) -> list[float]:
        ratios = _paired(clock, size, pairs)
        while _bears_out(*_quartiles(ratios)[::2]) is None and len(ratios) < 2 * pairs:
            ratios += _paired(clock, size, 1)
        return ratios

    return _twice(time_s, sizes, pairs, measure=enough)


def out_of_the_loop(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    verdict, middles = OPEN, dict[int, float]()
    for size in sizes:
        verdict, middle = _twice(time_s, [size], pairs)
        middles |= middle
        if verdict != "holds":
            break
    return verdict, middles


EXERCISE = "13.own"
EXAMPLES: dict[str, Any] = {
    "asserts": asserts,
    "optional-stopping": until_it_is_clear,
    "sizes-untried": out_of_the_loop,
}
