"""Emulated links, on a rank: real collectives and messages that complete later than they are done.

Each call is handed on at once and runs for real; the ``Work`` that its caller gets is one of ours, which is done when
both the real one and the timetable say so. The thread that started it is never held up, so what can overlap with
computing does. Whoever waits, in Python or in C++ (DDP's reducer, ``wait_tensor`` of functional collectives), waits on
the future inside. A link can only be made slower than the machine's own.

Such a Work does not raise by itself when the real one has failed. ``Work.wait`` therefore raises here; where the wait
was in C++, the next call does, or the end of the function.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch._C._distributed_c10d import (  # type: ignore[attr-defined]  # torch's own stub lacks the second
    Work,
    _create_work_from_future,
)
from torch.futures import Future

from course_lib.cluster.hooks import comm_hooks, op_tracker, operators
from course_lib.cluster.hooks.operators import CommCall
from course_lib.cluster.links.links import Links
from course_lib.cluster.links.port_schedule import Booking, Timetable

__all__ = ["ShapedLinks"]

_MOST_WAITERS = 512  # threads, made as they are needed: each waits for one message


class ShapedLinks:
    """Shapes the links of this process between ``open`` and ``close``."""

    def __init__(self, links: Links, *, path: Path, world_size: int) -> None:
        self._timetable = Timetable(path, links, world_size)
        self._timer = _Timer()
        self._waiters = ThreadPoolExecutor(_MOST_WAITERS, thread_name_prefix="shaped-link")
        self._counts: Counter[tuple[object, ...]] = Counter()  # calls so far, by what numbers them
        self._lock = threading.Lock()
        self._failures: deque[Exception] = deque()  # of real calls, until somebody has been told
        self.unmet: set[_FromAnyone] = set()  # kept here, since the C++ side keeps no Python object alive

    def open(self) -> None:
        comm_hooks.subscribe(self._on_call)
        comm_hooks.subscribe_waits(self)

    def close(self) -> None:
        comm_hooks.unsubscribe_waits(self)
        comm_hooks.unsubscribe(self._on_call)
        self._waiters.shutdown(wait=False)

    def raise_failure(self) -> None:
        """Raise what a real call has raised, if nobody has been told yet."""
        if self._failures:
            raise self._failures.popleft()

    def wait_started(self, work: Any) -> None:
        pass

    def wait_ended(self, work: Any, started: None, error: BaseException | None) -> None:
        if error is None:
            self.raise_failure()

    def _on_call(self, name: str, arguments: dict[str, Any], proceed: Callable[[], Any]) -> Any:
        asked = operators.read(name, arguments)
        if asked is None or len(asked.ranks) == 1 or any(t.is_cuda for t in operators.tensors_in(arguments)):
            return proceed()
        self.raise_failure()
        began_s = time.monotonic()
        if asked.operation == "recv" and asked.peer is None:
            work = _FromAnyone(Work.unbox(proceed()), self, asked, began_s)
            self.unmet.add(work)
            return work.boxed()
        booking = self.book(asked, began_s)
        result = proceed()
        if isinstance(result, (tuple, list)):
            return tuple(self._later(part, booking) for part in result)
        return self._later(result, booking)

    def book(self, asked: CommCall, began_s: float) -> Booking:
        """Write the call into the timetable, under a key that its other ranks compute alike."""
        if asked.operation in ("send", "recv"):
            assert asked.peer is not None
            ends = (asked.group_rank, asked.peer) if asked.operation == "send" else (asked.peer, asked.group_rank)
            series: tuple[object, ...] = (asked.group.group_name, asked.ranks, *ends, asked.tag)
            ranks, group_rank = tuple(asked.ranks[end] for end in ends), int(asked.operation == "recv")
            booking = Booking(series, "send", ranks, group_rank)
        else:
            series = (asked.group.group_name, asked.ranks)
            booking = Booking(series, asked.operation, asked.ranks, asked.group_rank, asked.root)
        with self._lock:
            self._counts[series] += 1
            booking = replace(booking, key=(*series, self._counts[series]))
        self._timetable.enter(booking, began_s, _parts_bytes(asked, booking))
        return booking

    def release(self, gate: Future[Any], booking: Booking, result: Any) -> None:
        """Open the gate of a call that is done in truth when it may be seen to be done."""
        self._timer.at(self._timetable.settle(booking), lambda: gate.set_result(result))

    def _later(self, part: Any, booking: Booking) -> Any:
        """What an operator returned, with a Work of ours in place of the real one."""
        if not isinstance(part, torch.ScriptObject):
            return part
        real = Work.unbox(part)
        gate: Future[None] = Future()
        try:
            future = real.get_future()
        except RuntimeError:  # gloo's messages, and its reduce-scatter, tell only those who wait
            waiting = self._waiters.submit(comm_hooks.wait_unhooked, real)
            waiting.add_done_callback(lambda _: self.release(gate, booking, None))
            return self._work(gate, lambda: [waiting.result()][:0])
        future.add_done_callback(lambda _: self.release(gate, booking, None))
        return self._work(gate, future.value)

    def _work(self, gate: Future[None], result: Callable[[], Any]) -> Any:
        """A Work that is done when the gate opens, with ``result()`` of the real one, which raises what that raised."""

        def finish(_: object) -> Any:
            try:
                return result()
            except Exception as error:
                self._failures.append(error)
                raise

        return _create_work_from_future(gate.then(finish)).boxed()


class _FromAnyone(Work):
    """A receive that learns from whom only when it is done; it is waited for in Python alone."""

    def __init__(self, real: Work, links: ShapedLinks, asked: CommCall, began_s: float) -> None:
        super().__init__()
        self._real, self._links, self._asked, self._began_s = real, links, asked, began_s
        self._future: Future[list[torch.Tensor]] = Future()

    def wait(self, timeout: timedelta = timedelta()) -> bool:
        if not self._future.done():
            self._real.wait()
            asked = replace(self._asked, peer=self._real._source_rank())
            booking = self._links.book(asked, self._began_s)
            self._links.release(self._future, booking, [])
            self._future.wait()
            op_tracker.mark_done(self)
            self._links.unmet.discard(self)
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def get_future(self) -> Any:
        return self._future

    def _source_rank(self) -> int:
        return self._real._source_rank()


def _parts_bytes(asked: CommCall, booking: Booking) -> list[float]:
    """What this rank has for every place of the booking; at its own place the whole, or what a tree's edge carries."""
    n = len(booking.ranks)
    if asked.operation == "all_to_all":
        return [float(part) for part in asked.split_bytes or [asked.size_bytes / n] * n]
    part_bytes = asked.output_bytes if asked.operation == "scatter" else asked.size_bytes
    return [float(part_bytes)] * n


@dataclass(order=True)
class _Appointment:
    time_s: float
    number: int
    do: Callable[[], Any]


class _Timer:
    """One thread that does things at their moments, by ``clock``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heap: list[_Appointment] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def at(self, time_s: float, do: Callable[[], Any]) -> None:
        with self._changed:
            heapq.heappush(self._heap, _Appointment(time_s, next(self._numbers), do))
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="shaped-links-timer", daemon=True)
                self._thread.start()

    def _keep(self) -> None:
        while True:
            with self._changed:
                while not self._heap or self._heap[0].time_s > self._clock():
                    left_s = self._heap[0].time_s - self._clock() if self._heap else None
                    self._changed.wait(left_s)
                appointment = heapq.heappop(self._heap)
            appointment.do()
