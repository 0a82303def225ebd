"""The stack of a thread, read from another one, without keeping what its functions hold.

Whoever holds the frame of a function holds its local variables: a tensor of a function that has returned meanwhile
stays as long as the reader looks. So frames are held for the walk alone, which opens no file; and who counts memory
waits until no walk is under way.
"""

from __future__ import annotations

import sys
import threading

from course_lib.cluster.base.failure import Frame

__all__ = ["stack_of", "wait_for_readers"]

_reading = threading.Lock()  # held as long as frames are


def stack_of(thread: int) -> tuple[Frame, ...]:
    """The frames of a thread (``threading.get_ident()``), the innermost last; none where the thread is gone."""
    found: list[tuple[str, int | None, str]] = []
    with _reading:
        frame = sys._current_frames().get(thread)
        while frame is not None:
            found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
    # From a list: a tuple that grows raises SystemError when the thread holds all that the collector knows, as the
    # capstone's limit of memory does; the reader would end, and the rank answer no more.
    return tuple([Frame(filename, line_number or 0, function) for filename, line_number, function in reversed(found)])


def wait_for_readers(at_most_s: float = 5.0) -> None:
    """Return when no other thread holds frames to read them, so that what has been let go of is free."""
    if _reading.acquire(timeout=at_most_s):
        _reading.release()
