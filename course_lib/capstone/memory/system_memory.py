"""What a process holds as the system counts it: open files, pipes, sockets, shared memory, C's heap, other processes.

Python sees objects. A file in memory, the bytes that wait in a pipe, a segment of System V, or what a library has asked
C for are none of its objects, and the system knows them all the same. Each count is a growth since the attempt began,
so that what a rank had before is nobody's.

Three kinds of counts, by how sharp they are:

    beside      exact, to the byte or the page: whatever is there has been put there
    heap_bytes  exact, and with a noise: C's ``malloc`` serves libraries, too. In new ranks that have been warmed
                (``warming.py``), honest runs were seen to have up to 1.1 MB there that no tensor explains
    resident    rough: allocators give pages back when they like, and Python's small objects have pages of their own;
                honest runs were seen to grow by up to 11 MB

What hides in the noise is not judged (``attempts/hidden_memory.py`` has the limits), nor what is gone again when a step
is over. Without ``/proc`` (macOS, Windows) there are other processes alone, and without glibc no heap. A process that
uses a GPU has no heap either: the driver takes from there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import psutil
import torch

from course_lib.capstone.memory.open_files import shared_maps, system_v, waiting_in_files

__all__ = ["Since", "SystemHeld", "adopted", "malloc_in_use"]

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_END_S = 5.0  # what a process that was killed may take to be gone


@dataclass(frozen=True)
class SystemHeld:
    """By how much a process has grown since an attempt began. None where the system does not tell."""

    beside: Mapping[str, int] = field(default_factory=dict)  # bytes, by what they are in
    heap_bytes: int | None = None  # in use, of C's malloc: tensors on the CPU are there, too
    resident_bytes: int | None = None  # memory of its own that is not a file's
    new_modules: int = 0  # that a library has brought: each fills some of the heap
    children: tuple[str, ...] = ()  # processes that it has started, and those of these, that still run


class Since:
    """A look at what this process has now; ``held`` says by how much that has grown."""

    def __init__(self) -> None:
        self._files = waiting_in_files()
        self._maps, self._system_v = shared_maps(), system_v()
        self._modules = set(sys.modules)
        self._heap, self._resident = malloc_in_use(), _resident_bytes()  # last: the others take memory

    def held(self) -> SystemHeld:
        """Now."""
        beside = {
            **_new(waiting_in_files(), self._files),
            **_new(shared_maps(), self._maps),
            **_new(system_v(), self._system_v),
        }
        heap = None if torch.cuda.is_initialized() else _grown(malloc_in_use(), self._heap)
        resident = None if torch.cuda.is_initialized() else _grown(_resident_bytes(), self._resident)
        if resident is not None:
            resident -= _off_bytes()
        return SystemHeld(beside, heap, resident, len(sys.modules.keys() - self._modules), _children())


def _new(now: Mapping[tuple[str, Any], int], before: Mapping[tuple[str, Any], int]) -> dict[str, int]:
    """Bytes by kind, of what was not there before."""
    found: dict[str, int] = {}
    for key, size in now.items():
        if key not in before and size:
            found[key[0]] = found.get(key[0], 0) + size
    return found


def _grown(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def _children() -> tuple[str, ...]:
    """Names of processes below this one; what has ended and was not asked for its end holds nothing."""
    names = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE:
                names.append(child.name())
    return tuple(names)


@contextmanager
def adopted() -> Iterator[None]:
    """In this block processes whose parent has ended become this one's children, and not those of the system's first
    process: a double fork with a session of its own does not lead away. What is left of them is ended behind it.
    """
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    _adopt(True)
    try:
        yield
    finally:
        left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
        for child in left:
            with suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(left, timeout=_END_S)
        _adopt(False)


def _adopt(are_adopted: bool) -> None:
    libc = _libc()
    if libc is not None and sys.platform == "linux":
        libc.prctl(_PR_SET_CHILD_SUBREAPER, int(are_adopted), 0, 0, 0)


class _Mallinfo2(ctypes.Structure):
    """Of <malloc.h>."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


@lru_cache(maxsize=1)
def _libc() -> Any:
    with suppress(OSError, TypeError):
        return ctypes.CDLL(None)
    return None


def malloc_in_use() -> int | None:
    """Bytes that C's ``malloc`` has given out, in pieces and in whole maps; None where it does not tell."""
    ask = getattr(_libc(), "mallinfo2", None)  # of glibc, 2.33 or newer
    if ask is None:
        return None
    ask.restype = _Mallinfo2
    info = ask()
    return int(info.uordblks + info.hblkhd)


def _off_bytes() -> int:
    """By how much two looks at resident memory may be apart for nothing: each core counts for itself up to 32 pages."""
    return 2 * 32 * (os.cpu_count() or 1) * os.sysconf("SC_PAGE_SIZE")


def _resident_bytes() -> int | None:
    """Memory of its own, what is swapped out not counted: all that is resident but files and what is shared."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
