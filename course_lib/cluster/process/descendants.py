"""Descendants of a rank: processes that it has started, and theirs, wherever they have gone since.

A child that begins a session of its own leaves the rank's process group, and one whose parent ends goes to init: the
end of the group does not reach them. On Linux a rank, and the fork server above it, are *subreapers*: orphans below
them come back to them. So each is found, and ended with its rank. Elsewhere the process group is all there is.

Source: prctl(2), PR_SET_CHILD_SUBREAPER; proc(5), /proc/pid/task/tid/children.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Container
from pathlib import Path

import psutil

__all__ = ["adopt", "below", "end_below", "end_strays"]

_SET_CHILD_SUBREAPER = 36
_MOST_ROUNDS = 50  # of looking again for what was started, or has changed its parent, while we looked
_ROUND_S = 0.002
_LONGEST = 60  # characters of a command line
_LOOKS = 5  # at a command whose arguments are not there yet


def adopt() -> None:
    """From now on this process gets the orphans below it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below(pid: int) -> list[int]:
    """The processes below this one, those nearest to it first; itself is not among them."""
    found, next_ones = list[int](), _children(pid)
    while next_ones:
        found += next_ones
        next_ones = [child for one in next_ones for child in _children(one)]
    return found


def end_below(pid: int, *, spare: Container[int] = ()) -> None:
    """End all processes below this one, apart from its own children in ``spare`` and what is below those."""
    seen_none = False
    for _ in range(_MOST_ROUNDS):
        children = [child for child in _children(pid) if child not in spare]
        living = [one for child in children for one in (child, *below(child)) if _lives(one)]
        if not living and seen_none:  # once is not enough: one whose parent ended meanwhile is in neither list
            return
        seen_none = not living
        for one in living:
            _kill(one)
        if living:
            time.sleep(_ROUND_S)


def end_strays() -> tuple[str, ...]:
    """End what this process, a rank, has started and what has left its session; a line for each of them."""
    if not _has_children():
        return ()
    here, lines = os.getsid(0), []
    for pid in below(os.getpid()):
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if _lives(pid) and os.getsid(pid) != here:
                words = _words_of(psutil.Process(pid))
                words = words if len(words) <= _LONGEST else f"{words[:_LONGEST]} ..."
                _kill(pid)
                lines.append(f"left a process in a session of its own ({words}), which was ended")
    return tuple(lines)


def _words_of(process: psutil.Process) -> str:
    """The command, with its arguments; these are not there for a moment while a program takes a process over."""
    for _ in range(_LOOKS):
        if words := " ".join(process.cmdline()):
            return words
        time.sleep(_ROUND_S)
    return process.name()


def _has_children() -> bool:
    """In a microsecond, as nearly always there are none."""
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    try:
        lists = [(task / "children").read_text() for task in tasks.iterdir()]
    except OSError:  # it has ended, or this system keeps no such lists
        with contextlib.suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []
    return [int(word) for text in lists for word in text.split()]


def _lives(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
