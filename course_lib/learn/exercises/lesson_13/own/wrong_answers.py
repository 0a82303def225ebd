"""Wrong answers to 13.own, each wrong in one way."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.learn.exercises.lesson_13.own.worlds import LEAST, MOST, OPEN

__all__ = [
    "always_decides",
    "at_least_twice",
    "by_the_extremes",
    "by_the_mean",
    "by_the_median",
    "in_blocks",
    "longer_is_enough",
    "mean_over_sizes",
    "never_false",
    "one_run",
    "one_size_is_enough",
    "one_size_refutes",
    "ones_before_twos",
    "passes_over_open_sizes",
    "sizes_in_one",
    "upside_down",
]

TimeOf = Callable[[int], float]
Middle = tuple[float, float, float]  # lower quartile, median, upper quartile


def _quartiles(ratios: list[float]) -> Middle:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return low, middle, high


def _paired(time_s: TimeOf, size: int, pairs: int) -> list[float]:
    ratios = []
    for _ in range(pairs):
        one_s = time_s(size)
        ratios.append(time_s(2 * size) / one_s)
    return ratios


def _bears_out(low: float, high: float) -> bool | None:
    """Whether this size bears the claim out; None where it is open."""
    if low >= LEAST and high <= MOST:
        return True
    return False if high < LEAST or low > MOST else None


def _together(found: list[bool | None]) -> str:
    if None in found:
        return OPEN
    return "holds" if all(found) else "holds with conditions" if any(found) else "false"


def _twice(
    time_s: TimeOf,
    sizes: Sequence[int],
    pairs: int,
    *,
    measure: Callable[[TimeOf, int, int], list[float]] = _paired,
    middle: Callable[[list[float]], Middle] = _quartiles,
    rule: Callable[[float, float], bool | None] = _bears_out,
    together: Callable[[list[bool | None]], str] = _together,
) -> tuple[str, dict[int, float]]:
    """The right trial, of which one part may be another."""
    found, middles = [], {}
    for size in sizes:
        low, middles[size], high = middle(measure(time_s, size, pairs))
        found.append(rule(low, high))
    return together(found), middles


def one_run(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def once(ratios: list[float]) -> Middle:
        return ratios[0], ratios[0], ratios[0]

    return _twice(time_s, sizes, pairs, measure=lambda clock, size, _: _paired(clock, size, 1), middle=once)


def in_blocks(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def blocks(clock: TimeOf, size: int, pairs: int) -> list[float]:
        ones = [clock(size) for _ in range(pairs)]
        twos = [clock(2 * size) for _ in range(pairs)]
        return [two / one for one, two in zip(ones, twos, strict=True)]

    return _twice(time_s, sizes, pairs, measure=blocks)


def ones_before_twos(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    ratios: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(pairs):
        ones, twos = [time_s(size) for size in sizes], [time_s(2 * size) for size in sizes]
        for size, one, two in zip(sizes, ones, twos, strict=True):
            ratios[size].append(two / one)
    return _twice(time_s, sizes, pairs, measure=lambda _, size, __: ratios[size])


def _point(value: float) -> Middle:
    return value, value, value


def by_the_mean(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, middle=lambda ratios: _point(statistics.mean(ratios)))


def by_the_median(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, middle=lambda ratios: _point(statistics.median(ratios)))


def by_the_extremes(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, middle=lambda ratios: (min(ratios), statistics.median(ratios), max(ratios)))


def longer_is_enough(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, rule=lambda low, high: True if low > 1 else False if high < 1 else None)


def at_least_twice(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(
        time_s, sizes, pairs, rule=lambda low, high: True if low >= LEAST else False if high < LEAST else None
    )


def always_decides(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, rule=lambda low, high: low >= LEAST and high <= MOST)


def never_false(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, rule=lambda low, high: (low >= LEAST and high <= MOST) or None)


def sizes_in_one(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    by_size = {size: _paired(time_s, size, pairs) for size in sizes}
    low, _, high = _quartiles([ratio for ratios in by_size.values() for ratio in ratios])
    middles = {size: statistics.median(ratios) for size, ratios in by_size.items()}
    return _together([_bears_out(low, high)]), middles


def mean_over_sizes(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    by_size = {size: _quartiles(_paired(time_s, size, pairs)) for size in sizes}
    low, _, high = (statistics.mean(column) for column in zip(*by_size.values(), strict=True))
    return _together([_bears_out(low, high)]), {size: middle for size, (_, middle, _) in by_size.items()}


def one_size_is_enough(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def any_of(found: list[bool | None]) -> str:
        return OPEN if None in found else "holds" if any(found) else "false"

    return _twice(time_s, sizes, pairs, together=any_of)


def one_size_refutes(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def all_of(found: list[bool | None]) -> str:
        return OPEN if None in found else "holds" if all(found) else "false"

    return _twice(time_s, sizes, pairs, together=all_of)


def passes_over_open_sizes(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def of_the_rest(found: list[bool | None]) -> str:
        told = [one for one in found if one is not None]
        return _together(list(told)) if told else OPEN

    return _twice(time_s, sizes, pairs, together=of_the_rest)


def upside_down(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def inverted(clock: TimeOf, size: int, pairs: int) -> list[float]:
        return [1 / ratio for ratio in _paired(clock, size, pairs)]

    return _twice(time_s, sizes, pairs, measure=inverted)
