"""Sentences for settings that cannot work: sizes and counts of models and data."""

from __future__ import annotations

from numbers import Integral

__all__ = ["at_least", "nearest_divisor", "nearest_multiple"]


def at_least(minimum: int, **values: object) -> None:
    """Raise ``ValueError`` for the first value that is not a whole number of at least ``minimum``."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
            raise ValueError(
                f"{name}={value!r} does not work: {name} is a whole number of at least {minimum}. "
                f"The nearest that works is {_nearest_whole(value, minimum)}."
            )


def nearest_multiple(value: int, of: int) -> int:
    """The positive multiple of ``of`` closest to ``value`` (the larger one at a tie)."""
    return max(of, (value + of // 2) // of * of)


def nearest_divisor(value: int, of: int) -> int:
    """The divisor of ``of`` closest to ``value`` (the smaller one at a tie)."""
    return min((d for d in range(1, of + 1) if of % d == 0), key=lambda d: abs(d - value))


def _nearest_whole(value: object, minimum: int) -> int:
    """The whole number of at least ``minimum`` closest to ``value``; ``minimum`` for what is no number."""
    try:
        return max(minimum, round(float(value)))  # type: ignore[arg-type]  # any object may come in
    except (TypeError, ValueError, OverflowError):
        return minimum
