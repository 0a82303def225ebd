"""CPU time limit of a learner's code: time without a core and time within an import are left out.

Thirty learners share a node, so a second on the clock says little. What counts is computing of this thread, and waiting
that the code itself asked for: a sleep, a lock. The time in which the thread was ready and got no core is the
machine's (Linux tells it in ``/proc``), and the first import of a large module is nobody's fault.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from types import FrameType

__all__ = ["OwnTime", "is_importing"]

_ASLEEP = 0.05  # computing less than this share of the time is waiting
_MOST_TIMES = 3  # code that does both may take this many times its limit, held up by the machine or not


class OwnTime:
    """A clock of the thread that makes it. Ask ``is_up`` now and then, and say whether an import is running."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._began_s = self._marks_s()
        self._last_s = self._began_s
        self._excused_s = (0.0, 0.0)

    def is_up(self, *, importing: bool = False) -> bool:
        """Whether the code has had its time. Never in the middle of an import, whose time is not counted."""
        now_s = self._marks_s()
        if importing:
            passed_s = (now_s[0] - self._last_s[0], now_s[1] - self._last_s[1])
            self._excused_s = (self._excused_s[0] + passed_s[0], self._excused_s[1] + passed_s[1])
        self._last_s = now_s
        if importing:
            return False
        computed_s, own_s = (now_s[i] - self._began_s[i] - self._excused_s[i] for i in (0, 1))
        waited = own_s >= self.limit_s and computed_s <= _ASLEEP * own_s
        return computed_s >= self.limit_s or waited or own_s >= _MOST_TIMES * self.limit_s

    @staticmethod
    def _marks_s() -> tuple[float, float]:
        """Computing time of this thread, and time on the clock without that in which it waited for a core."""
        return time.thread_time(), time.monotonic() - _in_line_s()


def is_importing(frame: FrameType | None) -> bool:
    """Whether an import is running in the code that stands at ``frame``."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _in_line_s() -> float:
    """For how long this thread has been ready to run while others ran; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return 0.0
