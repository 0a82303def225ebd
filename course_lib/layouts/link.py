"""A link: how long a message takes from one rank to another. Shaped ranks and the cost model count with the same one.

A message of s bytes takes ``latency_s + s / bandwidth_bytes_per_s`` (Hockney's two numbers, often called alpha and
1 / beta). Which link joins which ranks is said by ``course_lib.cluster.Links``, for ranks that run, and by
``course_lib.cost.Network``, for a prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import is_number, not_negative

__all__ = ["Link"]


@checked
@dataclass(frozen=True)
class Link:
    """One direction of a connection. ``Link()`` takes no time, and adds none to what the machine itself takes."""

    latency_s: float = 0.0
    bandwidth_bytes_per_s: float = math.inf

    def __post_init__(self) -> None:
        latency_s, bandwidth = self.latency_s, self.bandwidth_bytes_per_s
        if not is_number(latency_s) or not 0 <= latency_s < math.inf:
            raise ValueError(
                f"latency_s={latency_s!r} must be a number of seconds, 0 or more; the nearest that works is 0"
            )
        if not is_number(bandwidth) or not bandwidth > 0:
            raise ValueError(
                f"bandwidth_bytes_per_s={bandwidth!r} must be a number above 0; for a very slow link use 1e6 "
                "(a megabyte a second), for no limit math.inf"
            )

    def time_s(self, size_bytes: float) -> float:
        """How long a message of ``size_bytes`` takes, in seconds."""
        not_negative(size_bytes=size_bytes)
        return self.latency_s + size_bytes / self.bandwidth_bytes_per_s
