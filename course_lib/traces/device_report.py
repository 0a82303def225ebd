"""One device of one rank: where its time went, and why it was idle."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.traces.breakdown import DeviceTime
from course_lib.traces.idle import IdleTime

__all__ = ["DeviceReport"]


@dataclass(frozen=True)
class DeviceReport:
    """One device of one rank, from one file."""

    source: str
    is_gpu: bool
    time: DeviceTime
    idle: IdleTime

    @property
    def name(self) -> str:
        """As in "rank 0", without a GPU, and "rank 1, GPU 1"."""
        return f"rank {self.time.rank}" + (f", GPU {self.time.device}" if self.is_gpu else "")
