"""Wait until other threads have let go of what is over: gloo's of tensors, the status thread of frames.

A thread of gloo wakes who waits for an operation, and drops its own references to the tensors a moment later: on a
busy machine, milliseconds later. Who reads memory in between finds bytes that nobody needs any more, or does not, as
the scheduler will. A thread that has let go sleeps until the next operation, and Linux tells which threads sleep.
"""

from __future__ import annotations

import os
import sys
import time

from course_lib.cluster.base.stack_of_thread import wait_for_readers

__all__ = ["settle"]

_NAME = "pt_gloo_runloop"  # given to these threads by ProcessGroupGloo
_AT_MOST_S = 5.0  # an operation in progress may also compute: then its tensors are in use, and there is no more to wait
_LOOK_S = 50e-6
_LONGEST = 4096  # bytes, of what the system tells of a thread
_known: dict[tuple[str, ...], list[str]] = {}  # the last look alone: by this process and all its threads, gloo's


def settle() -> None:
    """Return when no thread reads the stack, and all of gloo's have slept at two looks, one after the other.

    Between the looks Python's lock is free: a thread may need it to free a tensor, and sleeps until it has it. Without
    such threads, and where the system does not tell (macOS), this returns at once.
    """
    wait_for_readers()
    if not (threads := _gloo_threads()):
        return
    deadline, quiet = time.monotonic() + _AT_MOST_S, 0
    while quiet < 2 and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        quiet = quiet + 1 if all(map(_sleeps, threads)) else 0


def _gloo_threads() -> list[str]:
    if sys.platform != "linux" or "torch.distributed" not in sys.modules:
        return []
    try:
        everybody = (str(os.getpid()), *os.listdir("/proc/self/task"))
    except OSError:
        return []
    if everybody not in _known:
        _known.clear()
        _known[everybody] = [thread for thread in everybody[1:] if _read(thread, "comm").strip() == _NAME]
    return _known[everybody]


def _sleeps(thread: str) -> bool:
    """A thread that is gone holds nothing either."""
    state = _read(thread, "stat").rpartition(")")[2].split()
    return not state or state[0] == "S"


def _read(thread: str, name: str) -> str:
    try:  # without Python's files: there are two looks at each thread wherever a peak grows
        file = os.open(f"/proc/self/task/{thread}/{name}", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(file, _LONGEST).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(file)
