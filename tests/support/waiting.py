"""Waits until something is so, with a limit against hangs: the clock that tests look at is here.

A test that needs another process to have come so far asks for what shows it, a file or a state, and goes on at once.
The limit is for what would never come; that it was reached says something is broken, and never how quick a machine is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

import psutil

__all__ = ["HANG_LIMIT_S", "all_ended", "crowd", "holds_in_time", "is_running", "wait_until"]

HANG_LIMIT_S = 120.0
_LOOK_S = 0.02
_MOST_TIMES = 10.0


def crowd() -> float:
    """How many times longer work may take for all that want to run on this machine now; 2 where nobody else does."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return min(2.0 + load / (os.cpu_count() or 1), _MOST_TIMES)


def holds_in_time(condition: Callable[[], object], limit_s: float = HANG_LIMIT_S) -> bool:
    """Whether the condition comes to hold, looked at again and again; False at the limit."""
    end_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(_LOOK_S)
    return True


def wait_until(condition: Callable[[], object], what: str, limit_s: float = HANG_LIMIT_S) -> None:
    """Go on once the condition holds; an AssertionError names ``what`` where it never does."""
    assert holds_in_time(condition, limit_s), f"waited {limit_s:g} s in vain: {what}"


def is_running(pid: int) -> bool:
    """Whether a process runs; a zombie has ended, and waits to be collected."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def all_ended(pids: Iterable[int]) -> bool:
    """Whether these processes end in time, or have."""
    left = list(pids)
    return holds_in_time(lambda: not any(map(is_running, left)))
