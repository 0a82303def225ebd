"""A two-parameter time for collectives of a library that changes its ways as messages grow.

A straight line, latency plus size over bandwidth, is right for one way of sending. NCCL has several: small
buffers go by a protocol of low latency, larger ones by protocols that use more channels and more of the
bandwidth but start later. Measured times of one collective therefore lie between lines: on eight A100s the part
that is not size over bandwidth grows by about the same amount with each doubling of the size. So:

    time = latency_per_doubling_s * log2(size / 1 KiB) + size / bandwidth

Two numbers are fitted; the 1 KiB is fixed. The curve says nothing below the smallest size it was fitted to: there
it stays at that size's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, not_negative

__all__ = ["A100_ALL_REDUCE", "GrowingLatency", "fit_growing_latency"]

_FROM_BYTES = 1024.0
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

# (size in bytes, time in seconds) of an all-reduce among the 8 GPUs of an A100 machine with NVLink, as
# all_reduce_perf of nccl-tests prints them.
A100_ALL_REDUCE = (
    (32 * _KIB, 43.8e-6),
    (1 * _MIB, 101.9e-6),
    (16 * _MIB, 276.6e-6),
    (64 * _MIB, 684.6e-6),
    (256 * _MIB, 2420.6e-6),
    (1 * _GIB, 8203.9e-6),
    (16 * _GIB, 127997e-6),
)


@checked
@dataclass(frozen=True)
class GrowingLatency:
    """A fitted curve: ``bandwidth_bytes_per_s`` is size over time in the limit, not the link's own."""

    latency_per_doubling_s: float
    bandwidth_bytes_per_s: float
    smallest_bytes: float

    def __post_init__(self) -> None:
        not_negative(latency_per_doubling_s=self.latency_per_doubling_s)
        above_zero(bandwidth_bytes_per_s=self.bandwidth_bytes_per_s, smallest_bytes=self.smallest_bytes)

    def time_s(self, size_bytes: float) -> float:
        """The time of the collective over a buffer of ``size_bytes``, in seconds; 0 for nothing."""
        not_negative(size_bytes=size_bytes)
        if size_bytes == 0:
            return 0.0
        size_bytes = max(size_bytes, self.smallest_bytes)
        return self.latency_per_doubling_s * _doublings(size_bytes) + size_bytes / self.bandwidth_bytes_per_s


@checked
def fit_growing_latency(samples: Sequence[tuple[float, float]]) -> GrowingLatency:
    """Fit both numbers to (size in bytes, time in seconds) pairs, by least squares of the relative error.

    Needs two different sizes at least, all of 2 KiB or more, and times above zero: else ValueError.
    """
    if not samples:
        raise ValueError(
            "samples=[] does not work: the two numbers of this curve need at least two samples of different sizes."
        )
    sizes, times = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    if len(set(sizes)) < 2:
        raise ValueError(
            f"The two numbers of this curve need at least two different sizes; these {len(sizes)} samples have one."
        )
    if sizes.min() < 2 * _FROM_BYTES:
        raise ValueError(f"A size of {sizes.min():g} bytes is too small for this curve; use 2048 and more.")
    if times.min() <= 0:
        raise ValueError(f"A time of {times.min():g} s cannot be fitted; every time must be above 0 s.")
    terms = np.stack([_doublings(sizes), sizes], axis=1) / times[:, None]
    (per_doubling_s, per_byte_s), *_ = np.linalg.lstsq(terms, np.ones(len(times)), rcond=None)
    if per_doubling_s < 0 or per_byte_s <= 0:
        raise ValueError(
            "These times do not grow with size, and a latency and a bandwidth describe only times that grow."
        )
    return GrowingLatency(float(per_doubling_s), 1 / float(per_byte_s), float(sizes.min()))


def _doublings(size_bytes: Any) -> Any:  # a number or an array of numbers
    return np.log2(size_bytes / _FROM_BYTES)
