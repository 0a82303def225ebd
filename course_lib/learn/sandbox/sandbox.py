"""Run a learner's code so that it can neither stop the notebook nor change it: a time limit, its text, random
states.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from course_lib.learn.sandbox.call_watcher import from_library
from course_lib.learn.sandbox.cpu_time_limit import OwnTime, is_importing

__all__ = ["CappedText", "TimeIsUp", "kept_state", "running_on", "threads_of_a_person", "time_limit"]

_LOOK_S = 0.1  # how often the clock is looked at
_SETTLE_S = 0.3  # for threads that are about to end
_AGAIN_S = 0.5  # code that swallows the first interruption meets the next one


class TimeIsUp(BaseException):
    """Raised inside code that runs past its limit; no ``except Exception`` catches it. ``case``: what was tried."""

    case = ""


class CappedText(io.TextIOBase):
    """A text stream that keeps the first characters and drops the rest, so that an endless print fills no
    memory.
    """

    def __init__(self, limit: int = 4000) -> None:
        self._parts: list[str] = []
        self._left = limit

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if self._left > 0:
            kept = str(text)[: self._left]
            self._parts.append(kept)
            self._left -= len(kept)
        return len(text)

    @property
    def text(self) -> str:
        return "".join(self._parts)


@contextlib.contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise :class:`TimeIsUp` inside the block after this many seconds.

    In the main thread of a Unix system by an alarm, which also ends a sleep, and by the code's own time
    (``cpu_time_limit.py``): a busy machine does not shorten it, and no import is cut in two. Elsewhere by an exception
    that the interpreter delivers between two of its steps, after so long on the clock.
    """
    in_main = threading.current_thread() is threading.main_thread()
    limit = _alarm(limit_s) if in_main and hasattr(signal, "setitimer") else _asynchronous(limit_s)
    with limit:
        yield


@contextlib.contextmanager
def _alarm(limit_s: float) -> Iterator[None]:
    running, own_time = True, OwnTime(limit_s)

    def ring(number: int, frame: FrameType | None) -> None:
        if running and own_time.is_up(importing=is_importing(frame)):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, _AGAIN_S)
            raise TimeIsUp

    started_s = time.monotonic()
    handler_before = signal.signal(signal.SIGALRM, ring)
    left_s, again_s = signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
    try:
        try:
            yield
        finally:
            running = False
    finally:  # reached also when the alarm rings in the line above; it rings again half a second later at the earliest
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler_before)
        if left_s:  # somebody else's alarm was running: give it the rest of its time
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - started_s), 0.001), again_s)


@contextlib.contextmanager
def _asynchronous(limit_s: float) -> Iterator[None]:
    thread = ctypes.c_ulong(threading.get_ident())
    lock, running = threading.Lock(), True

    def ring() -> None:
        with lock:
            if running:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TimeIsUp))

    timer = threading.Timer(limit_s, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            running = False
        timer.cancel()


def threads_of_a_person() -> set[threading.Thread]:
    """The threads alive whose function is no library's: the learner's own."""
    return {thread for thread in threading.enumerate() if _is_of_a_person(thread)}


def running_on(before: set[threading.Thread]) -> str:
    """A sentence on threads that were begun since ``before`` and do not end, empty where there are none.

    Nothing ends a thread from outside but the end of its process.
    """
    deadline_s = time.monotonic() + _SETTLE_S
    left = threads_of_a_person() - before
    for thread in left:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    names = ", ".join(sorted(thread.name for thread in left if thread.is_alive()))
    if not names:
        return ""
    return f"A thread that your code started runs on ({names}); it ends when you restart the kernel."


def _is_of_a_person(thread: threading.Thread) -> bool:
    function = getattr(thread, "_target", None) or getattr(thread, "function", None) or type(thread).run  # of a Timer
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    code = getattr(function, "__code__", None)
    return code is not None and not from_library(code.co_filename)


@contextlib.contextmanager
def kept_state() -> Iterator[None]:
    """Put random generators, the default type and the gradient switch back as they were, whatever happens
    inside.
    """
    python_state = random.getstate()
    numpy_random = sys.modules.get("numpy.random")
    numpy_state: Any = numpy_random.get_state() if numpy_random else None
    torch = sys.modules.get("torch")
    if torch is not None:
        cpu_state, dtype, grad = torch.get_rng_state(), torch.get_default_dtype(), torch.is_grad_enabled()
        on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
        gpu_states = torch.cuda.get_rng_state_all() if on_gpu else None
    try:
        yield
    finally:
        random.setstate(python_state)
        if numpy_random:
            numpy_random.set_state(numpy_state)
        if torch is not None:
            torch.set_rng_state(cpu_state)
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)
            if gpu_states is not None:
                torch.cuda.set_rng_state_all(gpu_states)
