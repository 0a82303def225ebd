"""Emulated compute: steps that wait in place of computing, and ranks slowed by a factor.

Two cores cannot show what four busy devices do. A *paced* step waits instead of computing, so ranks, messages and
schedules are real while the arithmetic is not; the meter counts the wait as computing. A *slowed* rank computes for
real, and before each call of a collective or a message waits as long again as its factor demands.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from course_lib.cluster.base.rank import Rank

__all__ = ["Slowdown", "check_time", "pace", "paced_s"]

_lock = threading.Lock()
_total_s: dict[int, float] = {}  # by thread: waits that count as computing and are over
_since_s: dict[int, float] = {}  # by thread: when the one that is going on began


def pace(me: Rank, time_s: float) -> None:
    """Compute for ``time_s`` seconds without computing; longer on a rank that is slowed.

    ::

        pace(me, 0.020)     # "a forward pass of 20 ms", whatever the machine has to do besides
    """
    check_time(time_s)
    with _counted():
        time.sleep(time_s * me.slow_factor)


def check_time(time_s: float) -> None:
    """``ValueError`` for what is no number of seconds."""
    is_number = isinstance(time_s, (int, float)) and not isinstance(time_s, bool)
    if not is_number or not 0 <= time_s < math.inf:
        raise ValueError(f"time_s={time_s!r} must be a number of seconds, 0 or more; the nearest that works is 0")


def paced_s(thread: int) -> float:
    """Seconds that a thread (``threading.get_ident()``) has spent in waits that stand for computing."""
    with _lock:
        since_s = _since_s.get(thread)
        return _total_s.get(thread, 0.0) + (0.0 if since_s is None else time.monotonic() - since_s)


class Slowdown:
    """Stretches what this process computes between its communication calls, by CPU time of the calling thread."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._cpu_s: dict[int, float] = {}  # by thread: how far its computing has been stretched

    def open(self) -> None:
        """From now on; in front of every other subscriber, so that no clock of theirs takes the wait for theirs."""
        from course_lib.cluster.hooks import comm_hooks

        self.begin()
        comm_hooks.subscribe(self._on_call, first=True)

    def close(self) -> None:
        from course_lib.cluster.hooks import comm_hooks

        comm_hooks.unsubscribe(self._on_call)

    def begin(self) -> None:
        """What this thread has computed until now was not part of the work."""
        self._cpu_s[threading.get_ident()] = time.thread_time()

    def catch_up(self) -> None:
        """Wait for the computing since ``begin``."""
        thread, now_s = threading.get_ident(), time.thread_time()
        computed_s = now_s - self._cpu_s.get(thread, now_s)
        if computed_s > 0:
            with _counted():
                time.sleep(computed_s * (self._factor - 1))

    def _on_call(self, _name: str, _arguments: dict[str, Any], proceed: Callable[[], Any]) -> Any:
        self.catch_up()
        result = proceed()
        self.begin()
        return result


@contextlib.contextmanager
def _counted() -> Iterator[None]:
    """A wait of this thread that counts as computing."""
    thread, began_s = threading.get_ident(), time.monotonic()
    with _lock:
        _since_s[thread] = began_s
    try:
        yield
    finally:
        with _lock:
            _since_s.pop(thread, None)
            _total_s[thread] = _total_s.get(thread, 0.0) + time.monotonic() - began_s
