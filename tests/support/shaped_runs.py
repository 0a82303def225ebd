"""Shaped links without a clock: on a rank, what the timetable says of each call, and links that arrive when told to.

What a test compares with ``link_time`` are the moments of the timetable, exactly; how late a busy machine is besides
is in none of them. That nothing is seen to be done before its moment is shown by holding the moments back.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from course_lib.cluster.links.emulation import _Timer
from course_lib.cluster.links.port_schedule import Booking, Timetable

__all__ = ["Booked", "booked", "held", "spans_s"]


@dataclass(frozen=True)
class Booked:
    """A call of this rank by the timetable: when it began, and when it may be seen to be done, in seconds."""

    key: tuple[Any, ...]  # the same on every rank that takes part
    operation: str
    began_s: float
    arrives_s: float


@contextlib.contextmanager
def booked() -> Iterator[list[Booked]]:
    """The calls of this rank in the block, in the order in which they were settled."""
    began_s: dict[tuple[Any, ...], float] = {}
    found: list[Booked] = []
    enter, settle = Timetable.enter, Timetable.settle

    def entering(table: Timetable, booking: Booking, moment_s: float, parts_bytes: Any) -> None:
        began_s[booking.key] = moment_s
        enter(table, booking, moment_s, parts_bytes)

    def settling(table: Timetable, booking: Booking) -> float:
        arrives_s = settle(table, booking)
        found.append(Booked(booking.key, booking.operation, began_s[booking.key], arrives_s))
        return arrives_s

    Timetable.enter, Timetable.settle = entering, settling  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Timetable.enter, Timetable.settle = enter, settle  # type: ignore[method-assign]


@contextlib.contextmanager
def held() -> Iterator[Callable[[], None]]:
    """In the block nothing arrives on this rank before the function is called that is given; then all does at once."""
    at, lock, waiting = _Timer.at, threading.Lock(), []
    is_open = False

    def keep(_timer: _Timer, _moment_s: float, do: Callable[[], Any]) -> None:
        with lock:
            if not is_open:
                waiting.append(do)
                return
        do()

    def release() -> None:
        nonlocal is_open
        with lock:
            is_open = True
        for do in waiting:
            do()
        waiting.clear()

    _Timer.at = keep  # type: ignore[method-assign]
    try:
        yield release
    finally:
        _Timer.at = at  # type: ignore[method-assign]
        release()


def spans_s(ranks: list[list[Booked]]) -> dict[tuple[Any, ...], tuple[float, float]]:
    """By call: seconds from the last rank's beginning, and from the first one's, until it has arrived at all.

    A call whose ranks begin apart takes its time from somewhere in between: the first is at most that time, and the
    second at least.
    """
    calls: dict[tuple[Any, ...], list[Booked]] = {}
    for one in (one for rank in ranks for one in rank):
        calls.setdefault(one.key, []).append(one)
    found = {}
    for key, parts in calls.items():
        end_s = max(part.arrives_s for part in parts)
        starts_s = [part.began_s for part in parts]
        found[key] = (end_s - max(starts_s), end_s - min(starts_s))
    return found
