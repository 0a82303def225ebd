"""A measured time by size, read between its samples: for what no straight line describes.

Copies on a CPU are fast while the data fits a cache and slow beyond it, so two numbers (a latency and a
bandwidth) miss them by a factor. A curve keeps the samples and draws straight lines between them on
logarithmic axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Curve"]


@dataclass(frozen=True)
class Curve:
    """Times by size: ``samples`` holds (size in bytes, time in seconds) pairs, the sizes increasing.

    Below the smallest size the time is that of the smallest; above the largest it grows in proportion.
    """

    samples: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.samples]
        if not sizes or sizes[0] <= 0 or any(left >= right for left, right in pairwise(sizes)):
            raise ValueError(f"The sizes of a curve are above zero and increasing, and these are {sizes}.")
        if not all(time > 0 and math.isfinite(time) for _, time in self.samples):
            raise ValueError("A time of a curve is not above 0 s; every sample needs a measured time.")

    @classmethod
    def rising(cls, samples: Sequence[tuple[int, float]]) -> Curve:
        """A curve from noisy samples: where a larger size took less time, the larger size's time counts.

        Other work on a machine can only lengthen a time, so of two that contradict each other the shorter
        one is nearer to the truth.
        """
        lowest, times = math.inf, []
        for size, time_s in reversed(samples):
            lowest = min(lowest, time_s)
            times.append((size, lowest))
        return cls(tuple(reversed(times)))

    @property
    def latency_s(self) -> float:
        """The time of the smallest sample."""
        return self.samples[0][1]

    def time_s(self, size_bytes: float) -> float:
        """The time for ``size_bytes``, in seconds; 0 for nothing."""
        if size_bytes < 0:
            raise ValueError(f"size_bytes is {size_bytes}; the smallest size is 0.")
        if size_bytes == 0:
            return 0.0
        first, last = self.samples[0], self.samples[-1]
        if size_bytes <= first[0]:
            return first[1]
        if size_bytes >= last[0]:
            return last[1] * size_bytes / last[0]
        pairs = pairwise(self.samples)
        (low, low_s), (high, high_s) = next(pair for pair in pairs if size_bytes <= pair[1][0])
        share = math.log(size_bytes / low) / math.log(high / low)
        return low_s * (high_s / low_s) ** share
