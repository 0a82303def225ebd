"""Ends of processes: who descends from whom, and a signal for those whose parent dies. By the standard library alone.

Agents start their ranks in sessions of their own, so that no group of processes has them all. On Linux a process may
ask for the orphans among its descendants (``adopt_orphans``): whoever descends from the supervisor stays its
descendant.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

__all__ = ["adopt_orphans", "descendants", "die_with_parent", "end"]

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LINUX = sys.platform == "linux"


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies; ``parent``: end at once if it has died already."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own. Only Linux can."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(of: int) -> list[int]:
    """All processes below one, children first."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(of, ()))
    for pid in found:  # grows while it is read
        found += children.get(pid, ())
    return found


def end(pids: Iterable[int]) -> None:
    """SIGKILL to each; those that are gone are no matter."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_all_below(of: int, *, limit_s: float = 10.0) -> None:
    """Kill until nothing descends from ``of``, whose children are ours to reap."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        left = descendants(of)
        if not left:
            return
        end(left)
        time.sleep(0.005)


def _parents() -> list[tuple[int, int]]:
    """(process, its parent) of every process that can be seen."""
    if not _LINUX:
        with subprocess.Popen(["ps", "-axo", "pid=,ppid="], stdout=subprocess.PIPE, text=True) as ps:
            listing = ps.communicate()[0]
        rows = [line.split() for line in listing.splitlines()]
        return [(int(pid), int(parent)) for pid, parent in rows if int(pid) != ps.pid]
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    text = file.read()
                found.append((int(name), int(text[text.rindex(b")") + 2 :].split()[1])))
    return found
