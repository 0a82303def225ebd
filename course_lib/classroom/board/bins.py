"""Numbers sorted into a few bins: on an even scale, or by factors where they differ by more than twenty times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Bin", "Bins", "bins_of"]

_MOST_BINS = 12
_WIDE = 20.0  # from here on, factors say more than differences
_FACTORS = (math.sqrt(2), 2.0, math.sqrt(10), 10.0, 100.0, 1000.0, 1e4, 1e6)
_BINARY_FACTORS = (math.sqrt(2), 2.0, 4.0, 8.0, 16.0, 64.0, 1024.0, 2.0**15, 2.0**20)
_WHOLE_FACTORS = (2.0, 4.0, 10.0, 100.0, 1000.0, 1e4, 1e6)
_TIMES = ("s", "ms", "us", "µs", "ns")
_BINARY_UNITS = ("bytes", "KiB", "MiB", "GiB")


@dataclass(frozen=True)
class Bin:
    """Numbers from ``low`` up to, not with, ``high``. ``low == high``: this number alone."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Bins:
    """Bins in order, and their scale. On a scale of factors a first bin may hold the zeros."""

    bins: tuple[Bin, ...]
    is_log: bool

    @property
    def has_zeros(self) -> bool:
        return self.is_log and bool(self.bins) and self.bins[0].low == self.bins[0].high == 0

    def place_of(self, number: float) -> float:
        """Where a number stands, in bins from the left edge: 2.5 is the middle of the third."""
        first = 1 if self.has_zeros else 0
        if self.has_zeros and number <= 0:
            return 0.5
        scaled = self.bins[first:]
        low, high = scaled[0].low, scaled[-1].high
        if low == high:
            return first + len(scaled) / 2
        if self.is_log:
            number = max(number, low / 2)
            return first + len(scaled) * math.log(number / low) / math.log(high / low)
        return len(scaled) * (number - low) / (high - low)


def bins_of(numbers: Sequence[float], unit: str = "", also: Sequence[float] = (), high: float | None = None) -> Bins:
    """The numbers in at most twelve bins that reach from the least to the most of them and of ``also``.

    ``high`` is the most that a question allows: with "%" and 100 the scale is even, from 0 to 100.
    """
    every = [*numbers, *also]
    if not every:
        return Bins((), False)
    if unit == "%" and high == 100 and min(every) >= 0 and max(every) <= 100:
        return Bins(_filled(numbers, [10.0 * edge for edge in range(11)]), False)
    above = [number for number in every if number > 0]
    if min(every) >= 0 and above and max(above) >= _WIDE * min(above):
        return Bins(_by_factors(numbers, above, unit), True)
    return Bins(_evenly(numbers, every), False)


def _by_factors(numbers: Sequence[float], above: Sequence[float], unit: str) -> tuple[Bin, ...]:
    least, most = math.log(min(above)), math.log(max(above))
    whole = unit not in _TIMES and min(above) >= 1 and all(number == int(number) for number in numbers)
    for factor in _BINARY_FACTORS if unit in _BINARY_UNITS else _WHOLE_FACTORS if whole else _FACTORS:
        step = math.log(factor)
        first = _below(least / step)
        count = _below(most / step) - first + 1
        if count <= _MOST_BINS:
            break
    edges = [math.exp((first + index) * step) for index in range(count + 1)]
    edges = [float(round(edge)) if abs(edge - round(edge)) < 1e-9 * edge else edge for edge in edges]
    zeros = sum(number == 0 for number in numbers)
    zero_bin = (Bin(0.0, 0.0, zeros),) if zeros else ()
    return (*zero_bin, *_filled([number for number in numbers if number > 0], edges))


def _evenly(numbers: Sequence[float], every: Sequence[float]) -> tuple[Bin, ...]:
    least, most = min(every), max(every)
    step = _nice((most - least) / (_MOST_BINS - 2)) if most > least else _nice(abs(most) / 10 or 1.0)
    if all(number == int(number) for number in numbers) and max(map(abs, every)) < 1e15:
        step = max(1.0, step)
    first = _below(least / step)
    count = _below(most / step) - first + 1
    return _filled(numbers, [(first + index) * step for index in range(count + 1)])


def _below(steps: float) -> int:
    """The whole number below, or the one that only rounding keeps it from."""
    return round(steps) if math.isclose(steps, round(steps), rel_tol=1e-9) else math.floor(steps)


def _nice(step: float) -> float:
    """1, 2 or 5 times a power of ten: the least that is not below ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))


def _filled(numbers: Sequence[float], edges: Sequence[float]) -> tuple[Bin, ...]:
    """Bins between the edges; the outermost take what rounding has left outside."""
    counts = [0] * (len(edges) - 1)
    for number in numbers:
        place = sum(number >= edge * (1 - 1e-12) if edge > 0 else number >= edge for edge in edges) - 1
        counts[min(max(place, 0), len(counts) - 1)] += 1
    return tuple(Bin(low, high, count) for low, high, count in zip(edges, edges[1:], counts, strict=False))
