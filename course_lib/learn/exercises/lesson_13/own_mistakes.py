"""Usual wrong answers to 13.own, each with what it mixes up."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_13.own_seen import did_assert, did_go_on, left_sizes_out
from course_lib.learn.exercises.lesson_13.own_worlds import LEAST, MOST, OPEN

__all__ = ["MISTAKES"]

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


def _one_run(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def once(ratios: list[float]) -> Middle:
        return ratios[0], ratios[0], ratios[0]

    return _twice(time_s, sizes, pairs, measure=lambda clock, size, _: _paired(clock, size, 1), middle=once)


def _in_blocks(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def blocks(clock: TimeOf, size: int, pairs: int) -> list[float]:
        ones = [clock(size) for _ in range(pairs)]
        twos = [clock(2 * size) for _ in range(pairs)]
        return [two / one for one, two in zip(ones, twos, strict=True)]

    return _twice(time_s, sizes, pairs, measure=blocks)


def _ones_before_twos(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    ratios: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(pairs):
        ones, twos = [time_s(size) for size in sizes], [time_s(2 * size) for size in sizes]
        for size, one, two in zip(sizes, ones, twos, strict=True):
            ratios[size].append(two / one)
    return _twice(time_s, sizes, pairs, measure=lambda _, size, __: ratios[size])


def _point(value: float) -> Middle:
    return value, value, value


def _by_the_mean(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, middle=lambda ratios: _point(statistics.mean(ratios)))


def _by_the_median(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, middle=lambda ratios: _point(statistics.median(ratios)))


def _by_the_extremes(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, middle=lambda ratios: (min(ratios), statistics.median(ratios), max(ratios)))


def _longer_is_enough(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, rule=lambda low, high: True if low > 1 else False if high < 1 else None)


def _at_least_twice(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(
        time_s, sizes, pairs, rule=lambda low, high: True if low >= LEAST else False if high < LEAST else None
    )


def _always_decides(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, rule=lambda low, high: low >= LEAST and high <= MOST)


def _never_false(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    return _twice(time_s, sizes, pairs, rule=lambda low, high: (low >= LEAST and high <= MOST) or None)


def _sizes_in_one(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    by_size = {size: _paired(time_s, size, pairs) for size in sizes}
    low, _, high = _quartiles([ratio for ratios in by_size.values() for ratio in ratios])
    middles = {size: statistics.median(ratios) for size, ratios in by_size.items()}
    return _together([_bears_out(low, high)]), middles


def _mean_over_sizes(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    by_size = {size: _quartiles(_paired(time_s, size, pairs)) for size in sizes}
    low, _, high = (statistics.mean(column) for column in zip(*by_size.values(), strict=True))
    return _together([_bears_out(low, high)]), {size: middle for size, (_, middle, _) in by_size.items()}


def _one_size_is_enough(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def any_of(found: list[bool | None]) -> str:
        return OPEN if None in found else "holds" if any(found) else "false"

    return _twice(time_s, sizes, pairs, together=any_of)


def _one_size_refutes(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def all_of(found: list[bool | None]) -> str:
        return OPEN if None in found else "holds" if all(found) else "false"

    return _twice(time_s, sizes, pairs, together=all_of)


def _passes_over_open_sizes(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def of_the_rest(found: list[bool | None]) -> str:
        told = [one for one in found if one is not None]
        return _together(list(told)) if told else OPEN

    return _twice(time_s, sizes, pairs, together=of_the_rest)


def _upside_down(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def inverted(clock: TimeOf, size: int, pairs: int) -> list[float]:
        return [1 / ratio for ratio in _paired(clock, size, pairs)]

    return _twice(time_s, sizes, pairs, measure=inverted)


def _asserts(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    verdict, middles = _twice(time_s, sizes, pairs)
    for middle in middles.values():
        assert LEAST <= middle <= MOST, f"not twice as long: {middle:.2f}"
    return verdict, middles


def _until_it_is_clear(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    def enough(clock: TimeOf, size: int, pairs: int) -> list[float]:
        ratios = _paired(clock, size, pairs)
        while _bears_out(*_quartiles(ratios)[::2]) is None and len(ratios) < 2 * pairs:
            ratios += _paired(clock, size, 1)
        return ratios

    return _twice(time_s, sizes, pairs, measure=enough)


def _out_of_the_loop(time_s: TimeOf, sizes: Sequence[int], pairs: int) -> Any:
    verdict, middles = OPEN, dict[int, float]()
    for size in sizes:
        verdict, middle = _twice(time_s, [size], pairs)
        middles |= middle
        if verdict != "holds":
            break
    return verdict, middles


MISTAKES = (
    Mistake(
        "asserts",
        "Your trial asserts the claim: where it is false, an error comes in place of a verdict. A trial is to be able "
        "to say each of its verdicts. Return them.",
        _asserts,
        recognise=did_assert,
    ),
    Mistake(
        "one-run",
        "It decides from one pair. The first call may be a slow one, and one pair has no spread that could warn you. "
        "Take as many pairs as you are given.",
        _one_run,
    ),
    Mistake(
        "in-blocks",
        "You measure all of one size, and then all of the other. What changes on the machine meanwhile stands in the "
        "ratio as if it were of the bytes. Take the two of a ratio one right after the other.",
        _in_blocks,
    ),
    Mistake(
        "pairs-apart",
        "In each round you measure all sizes, and then twice as many bytes of each. Between the two of a ratio lie "
        "those of the other sizes, and what changes on the machine meanwhile. Take the two one right after the other.",
        _ones_before_twos,
    ),
    Mistake(
        "mean",
        "You decide by the mean of the ratios: a few disturbed calls move it wherever they like, and it has no spread "
        "by which to say that it cannot tell.",
        _by_the_mean,
    ),
    Mistake(
        "median-alone",
        "The median is a good middle, and says nothing of how far the ratios lie apart. In noise it falls on one side "
        "or the other by chance, and you call that a verdict. Look at both quartiles.",
        _by_the_median,
    ),
    Mistake(
        "extremes",
        "What you hold against the bounds goes with the extremes, so that a few disturbed calls keep you from ever "
        "deciding. The middle half is what counts: from the lower quartile to the upper.",
        _by_the_extremes,
    ),
    Mistake(
        "longer-is-enough",
        "You ask whether it takes longer. The claim says how much: twice, which is from 1.8 to 2.2 times. Without a "
        "threshold every claim of this kind holds.",
        _longer_is_enough,
    ),
    Mistake(
        "no-upper-bound",
        "Three times as long is not twice as long either. The claim can be missed on both sides.",
        _at_least_twice,
    ),
    Mistake(
        "always-decides",
        "What is not borne out you call false. Where the middle half lies across a bound, nothing was shown, neither "
        'for the claim nor against it: "cannot tell here".',
        _always_decides,
    ),
    Mistake(
        "never-false",
        "What is not borne out you leave open. Where the middle half lies wholly outside the bounds, it was shown: the "
        "claim is false at that size.",
        _never_false,
    ),
    Mistake(
        "sizes-in-one",
        "You throw the ratios of all sizes into one list. Sizes that differ then look like noise. Decide each size by "
        "itself, and put the answers together.",
        _sizes_in_one,
    ),
    Mistake(
        "mean-over-sizes",
        "You average over the sizes: one that takes once as long and one that takes three times as long make a fine 2 "
        "together, and the claim holds at neither.",
        _mean_over_sizes,
    ),
    Mistake(
        "one-size-is-enough",
        "One size bears it out, another contradicts it, and you say that it holds. The reader with the other size will "
        "find out: it holds with conditions.",
        _one_size_is_enough,
    ),
    Mistake(
        "one-size-refutes",
        "One size contradicts it, another bears it out, and you say that it is false. That is as unfair as the "
        "opposite: it holds with conditions.",
        _one_size_refutes,
    ),
    Mistake(
        "passes-over-open-sizes",
        "A size that is open is left out, and the others decide. But the claim speaks of it too: as long as one size "
        "is open, you cannot tell here.",
        _passes_over_open_sizes,
    ),
    Mistake(
        "upside-down",
        "Your ratios are those of the smaller message to the larger, about a half. Twice the bytes belong above the "
        "line.",
        _upside_down,
    ),
    Mistake(
        "optional-stopping",
        "How often you measure depends on what you have seen so far. That is optional stopping: whoever goes on until "
        "the numbers say something gets noise to say it. How many pairs there are is fixed before.",
        _until_it_is_clear,
        recognise=did_go_on,
        shows=lambda outcome: "pairs are asked for" in outcome.difference,
    ),
    Mistake(
        "sizes-untried",
        "Some sizes were never measured: your trial decides, or returns, before all of them have been tried. The claim "
        "speaks of each.",
        _out_of_the_loop,
        recognise=left_sizes_out,
    ),
)
