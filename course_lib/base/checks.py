"""Sentences for settings that cannot work: sizes, counts, amounts and names."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral

__all__ = [
    "MOST_RANKS",
    "above_zero",
    "at_least",
    "at_most",
    "divides",
    "finite_above_zero",
    "is_number",
    "known",
    "nearest_divisor",
    "nearest_multiple",
    "not_negative",
]


MOST_RANKS = 1 << 20  # ten times the largest machine there is; what is counted rank by rank still answers


def at_least(minimum: int, **values: object) -> None:
    """Raise ``ValueError`` for the first value that is not a whole number of at least ``minimum``."""
    for name, value in values.items():
        if type(value) is int and value >= minimum:  # at once: asking an abstract class takes ten times as long
            continue
        if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
            raise ValueError(
                f"{name}={value!r} does not work: {name} is a whole number of at least {minimum}. "
                f"The nearest that works is {_nearest_whole(value, minimum)}."
            )


def at_most(maximum: int, **values: int) -> None:
    """Raise ``ValueError`` for the first whole number above ``maximum``."""
    for name, value in values.items():
        if value > maximum:
            raise ValueError(f"{name}={value!r} does not work: {name} is at most {maximum:,}. Use {maximum}.")


def divides(number: int, what: str, **values: int) -> None:
    """Raise ``ValueError`` for the first value that is not a whole number which divides ``number``, of ``what``."""
    at_least(1, **values)
    for name, value in values.items():
        if number % value:
            raise ValueError(
                f"{name}={value!r} does not work: {name} divides the number of {what}, which is {number}. "
                f"The nearest that works is {nearest_divisor(value, number)}."
            )


def known(what: str, name: str, names: Iterable[str]) -> str:
    """``name`` itself when it is one of ``names``; else ``ValueError`` with all of them and the nearest."""
    names = tuple(names)
    if name not in names:
        near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{what} is {name!r}; it is one of {', '.join(names)}.{hint}")
    return name


def above_zero(**values: float) -> None:
    """Raise ``ValueError`` for the first value that is not a number above zero (infinity is one)."""
    for name, value in values.items():
        if not is_number(value) or value <= 0:
            raise ValueError(f"{name} is {value!r}; it must be a number above zero, if ever so small.")


def finite_above_zero(**values: float) -> None:
    """Raise ``ValueError`` for the first value that is not a number above zero, or is infinite."""
    for name, value in values.items():
        if not is_number(value) or value <= 0 or math.isinf(value):
            raise ValueError(f"{name} is {value!r}; it must be a finite number above zero, 1 for example.")


def not_negative(**values: float) -> None:
    """Raise ``ValueError`` for the first value that is not a finite number of at least zero."""
    for name, value in values.items():
        if not is_number(value) or value < 0 or math.isinf(value):
            raise ValueError(f"{name} is {value!r}; it must be zero or more. The nearest that works is 0.")


def is_number(value: object) -> bool:
    """Whether ``value`` is an int or a float, infinity included; True, False, nan and 10**400 are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:  # a whole number larger than any float
        return False


def nearest_multiple(value: int, of: int) -> int:
    """The positive multiple of ``of`` closest to ``value`` (the larger one at a tie)."""
    return max(of, (value + of // 2) // of * of)


def nearest_divisor(value: int, of: int) -> int:
    """The divisor of ``of`` closest to ``value`` (the smaller one at a tie)."""
    small = [d for d in range(1, math.isqrt(of) + 1) if of % d == 0]
    return min([*small, *(of // d for d in reversed(small))], key=lambda d: abs(d - value))


def _nearest_whole(value: object, minimum: int) -> int:
    """The whole number of at least ``minimum`` closest to ``value``; ``minimum`` for what is no number."""
    try:
        return max(minimum, round(float(value)))  # type: ignore[arg-type]  # any object may come in
    except (TypeError, ValueError, OverflowError):
        return minimum
