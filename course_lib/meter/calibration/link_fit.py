"""How long a message takes, as two numbers: time = latency + size / bandwidth.

The model is Hockney's: alpha seconds for any message however small, and beta seconds for each byte. Least
squares finds both from measured times; what is squared is the error relative to the time, so that a message
of microseconds counts as much as one of milliseconds.

Source: R. Hockney, "The communication challenge for MPP", Parallel Computing 20 (1994)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["LinkFit", "fit_link"]


@dataclass(frozen=True)
class LinkFit:
    """A fitted link: ``latency_s`` is alpha, ``bandwidth_bytes_per_s`` is 1 / beta.

    ``relative_error`` is the median of \\|fitted - measured\\| / measured over the samples; 0.1 means 10 %.
    ``samples`` holds the measured (size in bytes, one-way time in seconds) pairs.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    relative_error: float
    samples: tuple[tuple[int, float], ...] = ()

    def time_s(self, size_bytes: float) -> float:
        """The fitted one-way time of a message of ``size_bytes``, in seconds."""
        if size_bytes < 0:
            raise ValueError(f"A message of {size_bytes} bytes cannot be sent; the smallest size is 0.")
        return self.latency_s + size_bytes / self.bandwidth_bytes_per_s


def fit_link(samples: Sequence[tuple[int, float]]) -> LinkFit:
    """Fit latency and bandwidth to measured (size in bytes, one-way time in seconds) pairs.

    Needs two different sizes at least and times above zero, else ``ValueError``. Where time does not grow with
    size, the bandwidth is infinite. Latency is above zero: on a busy machine the best line may begin below it, and
    then the quickest message stands for the latency, as no message takes less.
    """
    if len({size for size, _ in samples}) < 2:
        raise ValueError(
            f"A line needs two different message sizes at least, and these {len(samples)} samples give fewer."
        )
    if any(time <= 0 for _, time in samples):
        raise ValueError("A measured time of zero or less cannot be fitted; every time must be above 0 s.")
    alpha, beta = _weighted_line(samples)
    if alpha <= 0:  # the best line through the quickest message's time, by the same weights
        alpha = min(time for _, time in samples)
        beta = _slope_through(alpha, samples)
    elif beta <= 0:
        alpha, beta = sum(1 / t for _, t in samples) / sum(1 / t**2 for _, t in samples), 0.0
    error = median(abs(alpha + beta * size - time) / time for size, time in samples)
    return LinkFit(alpha, 1 / beta if beta > 0 else math.inf, error, tuple(samples))


def _weighted_line(samples: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Intercept and slope that minimise the sum of squared relative residuals."""
    weights = [1 / time**2 for _, time in samples]
    total = sum(weights)
    mean_size = sum(w * size for w, (size, _) in zip(weights, samples, strict=True)) / total
    mean_time = sum(w * time for w, (_, time) in zip(weights, samples, strict=True)) / total
    rows = list(zip(weights, samples, strict=True))
    along = sum(w * (size - mean_size) ** 2 for w, (size, _) in rows)
    across = sum(w * (size - mean_size) * (time - mean_time) for w, (size, time) in rows)
    slope = across / along
    return mean_time - slope * mean_size, slope


def _slope_through(intercept: float, samples: Sequence[tuple[int, float]]) -> float:
    above = sum(size * (time - intercept) / time**2 for size, time in samples)
    return above / sum(size**2 / time**2 for size, time in samples)
