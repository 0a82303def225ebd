"""Defers SIGINT while ranks start or end: a start or end that is cut in two would corrupt the next call."""

from __future__ import annotations

import _signal  # the public functions look for enums, which takes ten times as long
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["deferred_interrupts"]

_MAX_DEFER_S = 2.0  # an interrupt that comes later goes through at once: something hangs


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Ctrl-C within this block is heard at its end.

    Only the main thread hears interrupts; in others this does nothing. May be nested.
    """
    before: Any = None
    if threading.current_thread() is threading.main_thread():
        before = _signal.getsignal(_signal.SIGINT)
    if not callable(before):  # ignored, or none of Python's
        yield
        return
    deferred: list[Any] = []
    began_s = time.monotonic()

    def note(number: int, frame: Any) -> None:
        if time.monotonic() - began_s > _MAX_DEFER_S:
            before(number, frame)
        deferred.append(frame)

    _signal.signal(_signal.SIGINT, note)
    try:
        yield
    finally:
        _signal.signal(_signal.SIGINT, before)
        if deferred:
            before(_signal.SIGINT, deferred[0])
