"""A fair stopwatch: warm-up, several rounds, medians, and the honesty to say when a machine was too noisy to
tell.

Two things are compared in pairs, and the order within the pairs alternates, so that a machine that slows down
(heat, a neighbour's job) slows both. What is said of them comes from the median of the paired ratios and an
interval around it that makes no assumption on the shape of the noise: order statistics, David and Nagaraja,
*Order Statistics*, section 7.1.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.base.checked import checked
from course_lib.meter.units import time_text

__all__ = ["Comparison", "Measurement", "compare", "measure", "median_interval"]

_SHORTEST_ROUND_S = 2e-3  # below this a round is repeated: clocks and call overheads would show
_NOISY_SPREAD = 0.25
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Measurement:
    """The times of one call in each round, in seconds, averaged over ``repeats`` calls in the round."""

    name: str
    times_s: tuple[float, ...]
    repeats: int = 1

    @property
    def median_s(self) -> float:
        """The median round."""
        return statistics.median(self.times_s)

    @property
    def low_s(self) -> float:
        """The lower end of the interval around the median."""
        return median_interval(self.times_s)[0]

    @property
    def high_s(self) -> float:
        """The upper end of the interval around the median."""
        return median_interval(self.times_s)[1]

    @property
    def spread(self) -> float:
        """Distance between the quartiles over the median: 0.02 is a quiet machine, 0.25 a noisy one."""
        if len(self.times_s) < 2 or self.median_s == 0:
            return 0.0
        quarters = statistics.quantiles(self.times_s, n=4, method="inclusive")
        return (quarters[2] - quarters[0]) / self.median_s

    @property
    def noisy(self) -> bool:
        """Whether the rounds differ so much that the median means little."""
        return self.spread > _NOISY_SPREAD

    def __str__(self) -> str:
        text = f"{self.name + ': ' if self.name else ''}{time_text(self.median_s)}"
        text += f" (median of {len(self.times_s)}, {time_text(self.low_s)} to {time_text(self.high_s)})"
        return text + ("; the machine was noisy, measure again" if self.noisy else "")


@dataclass(frozen=True)
class Comparison:
    """Two things timed in pairs. ``ratio`` is second time over first: above 1, the first is faster."""

    first: Measurement
    second: Measurement

    @property
    def ratios(self) -> tuple[float, ...]:
        """The ratio of each pair."""
        pairs = zip(self.first.times_s, self.second.times_s, strict=True)
        return tuple(second / first for first, second in pairs)

    @property
    def ratio(self) -> float:
        """The median of the paired ratios."""
        return statistics.median(self.ratios)

    @property
    def ratio_low(self) -> float:
        """The lower end of the interval around the ratio."""
        return median_interval(self.ratios)[0]

    @property
    def ratio_high(self) -> float:
        """The upper end of the interval around the ratio."""
        return median_interval(self.ratios)[1]

    @property
    def noisy(self) -> bool:
        """Whether the interval is too wide to tell the size of the ratio, whichever side of 1 it lies."""
        return self.ratio_high - self.ratio_low > 2 * _NOISY_SPREAD * self.ratio

    @property
    def verdict(self) -> str:
        """One sentence: which is faster and by how much, that no difference shows, or that noise hides it."""
        first, second = self.first.name, self.second.name
        low, high = self.ratio_low, self.ratio_high
        if low <= 1 <= high:
            if self.noisy:
                return f"Too noisy to tell {first} from {second}: ratio {low:.2f} to {high:.2f}."
            return f"No difference between {first} and {second} shows: ratio {low:.2f} to {high:.2f}."
        if high < 1:
            first, second, low, high = second, first, 1 / high, 1 / low
        ratio = self.ratio if self.ratio > 1 else 1 / self.ratio
        sentence = f"{first} is {ratio:.2f} times as fast as {second} ({low:.2f} to {high:.2f})."
        return sentence + (" The machine was noisy: measure again for the size of it." if self.noisy else "")

    def __str__(self) -> str:
        return f"{self.first}\n{self.second}\n{self.verdict}"


@checked
def measure(
    fn: Callable[[], Any],
    *,
    name: str = "",
    rounds: int = 9,
    warmup: int = 2,
    device: Any = None,
    setup: Callable[[], Any] | None = None,
    slowest: Callable[[float], float] | None = None,
) -> Measurement:
    """Time ``fn()``: ``warmup`` calls that do not count, then ``rounds`` that do.

    ``setup`` runs before each round, untimed. A call much shorter than 2 ms is repeated within a round,
    unless there is a ``setup``. With a CUDA ``device`` the work is waited for. ``slowest`` turns this rank's
    time into that of the slowest rank (a max all-reduce), where several run the same. Too few rounds are a
    ``ValueError``.
    """
    watch = _Watch(fn, device, setup, slowest)
    _check_rounds(rounds, warmup)
    watch.warm_up(warmup)
    return Measurement(name, tuple(watch.round_s() for _ in range(rounds)), watch.repeats)


@checked
def compare(
    first: Callable[[], Any],
    second: Callable[[], Any],
    *,
    names: Sequence[str] = ("the first", "the second"),
    rounds: int = 9,
    warmup: int = 2,
    device: Any = None,
    setup: Callable[[], Any] | None = None,
    slowest: Callable[[float], float] | None = None,
) -> Comparison:
    """Time two functions in pairs: first-second, second-first, and so on. Arguments as ``measure``."""
    _check_rounds(rounds, warmup)
    if len(names) != 2:
        raise ValueError(f"names holds {len(names)} names; give two, one for each function")
    watches = [_Watch(fn, device, setup, slowest) for fn in (first, second)]
    for watch in watches:
        watch.warm_up(warmup)
    times: tuple[list[float], list[float]] = ([], [])
    for index in range(rounds):
        for which in (0, 1) if index % 2 == 0 else (1, 0):
            times[which].append(watches[which].round_s())
    one, other = (
        Measurement(name, tuple(taken), watch.repeats) for name, taken, watch in zip(names, times, watches, strict=True)
    )
    return Comparison(one, other)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """An interval that holds the true median with 95 % confidence; smallest to largest below six values."""
    ordered, n = sorted(values), len(values)
    cut, tail = 0, 0.5**n
    while cut + 1 < n // 2 and 2 * (tail + math.comb(n, cut + 1) * 0.5**n) <= 1 - _CONFIDENCE:
        cut += 1
        tail += math.comb(n, cut) * 0.5**n
    return ordered[cut], ordered[n - 1 - cut]


class _Watch:
    """One function under the stopwatch."""

    def __init__(
        self,
        fn: Callable[[], Any],
        device: Any,
        setup: Callable[[], Any] | None,
        slowest: Callable[[float], float] | None,
    ) -> None:
        self._fn, self._setup, self._slowest = fn, setup, slowest
        self._wait = _waiter(device)
        self.repeats = 1

    def warm_up(self, calls: int) -> None:
        """Run ``calls`` rounds, then choose how often a round repeats a short call."""
        for _ in range(calls):
            last_s = self.round_s()
        if self._setup is None and 0 < last_s < _SHORTEST_ROUND_S:
            self.repeats = min(1000, math.ceil(_SHORTEST_ROUND_S / last_s))

    def round_s(self) -> float:
        """The time of one call, averaged over the repeats of a round, garbage collection held off."""
        if self._setup is not None:
            self._setup()
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._wait()
            start = time.perf_counter()
            for _ in range(self.repeats):
                self._fn()
            self._wait()
            taken = (time.perf_counter() - start) / self.repeats
        finally:
            if collecting:
                gc.enable()
        return taken if self._slowest is None else self._slowest(taken)


def _waiter(device: Any) -> Callable[[], Any]:
    """What to call so that a device has done all it was given; nothing to do on a CPU."""
    if not str(device or "cpu").startswith("cuda"):
        return lambda: None
    import torch

    return lambda: torch.cuda.synchronize(device)


def _check_rounds(rounds: int, warmup: int) -> None:
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; at least 1 is needed, and 6 or more for an interval worth the name")
    if warmup < 1:
        raise ValueError(f"warmup is {warmup}; at least 1 is needed: a first call pays for what the others find ready")
