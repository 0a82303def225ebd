"""Times of a collective at any size, from times measured at some: a curve, corrected where it was measured.

``GrowingLatency`` has two numbers, which is all that a few samples can tell. A library that changes its way at some
size (NCCL's protocols, algorithms and channels) leaves the curve there by 10 % and more. So the curve is multiplied by
a correction: at each sample what is missing there, between two samples what lies between, by the logarithm of the
size. With few samples the curve carries it, with many the samples do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero
from course_lib.cost.collectives.latency_by_log_n import GrowingLatency, fit_growing_latency

__all__ = ["FittedTimes", "fit_times"]


@checked
@dataclass(frozen=True)
class FittedTimes:
    """The curve, and its corrections: (size in bytes, measured time / time of the curve), the sizes increasing."""

    curve: GrowingLatency
    corrections: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.corrections]
        if not sizes or sizes[0] <= 0 or any(left >= right for left, right in pairwise(sizes)):
            raise ValueError(f"corrections have the sizes {sizes}; one or more are needed, above zero and increasing.")
        for _, factor in self.corrections:
            above_zero(factor=factor)

    def time_s(self, size_bytes: float) -> float:
        """The time over a buffer of ``size_bytes``, in seconds; 0 for nothing.

        Below the smallest sample it is that sample's; above the largest the last correction stays.
        """
        time_s = self.curve.time_s(size_bytes)
        if not time_s:
            return 0.0
        sizes, factors = np.array(self.corrections).T
        return time_s * float(np.exp(np.interp(np.log(size_bytes), np.log(sizes), np.log(factors))))


@checked
def fit_times(samples: Sequence[tuple[float, float]]) -> FittedTimes:
    """Fit (size in bytes, time in seconds) pairs; of a size that was measured more than once, the mean time counts.

    Needs what ``fit_growing_latency`` needs, and raises its ``ValueError``.
    """
    curve = fit_growing_latency(samples)
    times: dict[float, list[float]] = {}
    for size_bytes, time_s in samples:
        times.setdefault(float(size_bytes), []).append(time_s)
    corrections = [(size, float(np.mean(times[size])) / curve.time_s(size)) for size in sorted(times)]
    return FittedTimes(curve, tuple(corrections))
