"""The clock of a job: that of the machine whose notebook holds the ranks, also on a rank of another machine.

Processes of one machine share its monotonic clock. Another machine's is set by what was measured when they met, which
is right to half the time that a message takes.
"""

from __future__ import annotations

import time

__all__ = ["keep_time_with", "now_s"]

_behind_s = 0.0  # set once, when this process becomes a rank


def keep_time_with(behind_s: float) -> None:
    """This machine's clock is so far behind the notebook's."""
    global _behind_s
    _behind_s = behind_s


def now_s() -> float:
    """Seconds, to be compared with those of every rank and of the notebook."""
    return time.perf_counter() + _behind_s
