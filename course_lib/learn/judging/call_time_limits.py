"""Does an answer wait for something, or for a time? Its sleeps and time limits are cut short."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["limits_end_at_once"]

_LONG_S = 10.0  # a limit from here on is left alone: work that takes as long may well be given up, loudly
_SHORT_S = 0.001


@contextmanager
def limits_end_at_once() -> Iterator[list[str]]:
    """In this thread, sleeps and time limits of less than 10 s end after a millisecond, as if the work took longer.

    The list fills with each that was cut short: "time.sleep(0.3)". Other threads wait as ever.
    """
    caller, cut = threading.get_ident(), []
    of_thread, of_condition, sleep = threading.Thread.join, threading.Condition.wait, time.sleep

    def limit(timeout: float | None, told: str) -> float | None:
        if timeout is None or not _SHORT_S < timeout < _LONG_S or threading.get_ident() != caller:
            return timeout
        cut.append(told.format(f"{timeout:g}"))
        return _SHORT_S

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        of_thread(thread, limit(timeout, "a thread's join(timeout={})"))

    def wait(condition: threading.Condition, timeout: float | None = None) -> bool:
        return of_condition(condition, limit(timeout, "a wait of at most {} s"))

    def short_sleep(seconds: float) -> None:
        sleep(limit(seconds, "time.sleep({})") or 0)

    places: tuple[tuple[Any, str, Callable[..., Any], Callable[..., Any]], ...] = (
        (threading.Thread, "join", join, of_thread),
        (threading.Condition, "wait", wait, of_condition),
        (time, "sleep", short_sleep, sleep),
    )
    for owner, name, new, _ in places:
        setattr(owner, name, new)
    try:
        yield cut
    finally:
        for owner, name, _, old in places:
            setattr(owner, name, old)
