"""What waits in the files, pipes and sockets that a process has open, in memory that it shares, and in System V's.

Each by a key, so that what a rank had before can be told from what is new. Linux tells all of this; elsewhere there is
nothing here.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

if sys.platform == "linux":
    import fcntl
    import termios

__all__ = ["shared_maps", "system_v", "waiting_in_files"]

_BLOCK_BYTES = 512  # of st_blocks
_SO_DOMAIN, _SO_MEMINFO = 39, 55  # <asm-generic/socket.h>
_IN_AND_OUT = slice(0, 4, 2)  # of the numbers of SO_MEMINFO: received, and sent
_SHARED = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV", "/anon_hugepage")  # names of maps that are memory

Key = tuple[str, Any]  # what it is, and which


def waiting_in_files() -> dict[Key, int]:
    """Bytes of every file that is open for writing or has no name any more, and in every pipe and local socket."""
    found: dict[Key, int] = {}
    for fd in _descriptors():
        with suppress(OSError, ValueError):  # closed meanwhile, or it cannot be asked
            known = os.fstat(fd)
            one = _waiting_in(fd, known)
            if one is not None:
                found[one[0], (known.st_dev, known.st_ino)] = one[1]
    return found


def _descriptors() -> list[int]:
    if sys.platform != "linux":
        return []
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc/self/fd")]
    return []


def _waiting_in(fd: int, known: os.stat_result) -> tuple[str, int] | None:
    if stat.S_ISFIFO(known.st_mode):
        return "pipes", _to_be_read(fd)
    if stat.S_ISSOCK(known.st_mode):
        return "sockets", _in_a_local_socket(fd)
    if stat.S_ISREG(known.st_mode):
        is_written = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        if is_written or known.st_nlink == 0:
            return "open files", known.st_blocks * _BLOCK_BYTES
    return None


def _to_be_read(fd: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0])


def _in_a_local_socket(fd: int) -> int:
    """What the system keeps for it, both ways; 0 for one of a network, where messages of a step may be in flight."""
    with socket.socket(fileno=os.dup(fd)) as one:
        if one.getsockopt(socket.SOL_SOCKET, _SO_DOMAIN) != socket.AF_UNIX:
            return 0
        numbers = one.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 64)
    return sum(struct.unpack(f"{len(numbers) // 4}I", numbers)[_IN_AND_OUT])


def shared_maps() -> dict[Key, int]:
    """Bytes of every map of memory that other processes could see, used or not."""
    found: dict[Key, int] = {}
    for line in _lines_of("/proc/self/maps"):
        extent, _, _, device, inode, *name = line.split(maxsplit=5)
        if name and name[0].startswith(_SHARED):
            start, _, end = extent.partition("-")
            key = ("shared memory", (device, inode, start))
            found[key] = int(end, 16) - int(start, 16)
    return found


def system_v() -> dict[Key, int]:
    """Bytes of System V that this process has made or touched last: segments, and messages in queues."""
    return {**_rows("shm", ("cpid", "lpid"), "size"), **_rows("msg", ("lspid", "lrpid"), "cbytes")}


def _rows(table: str, owners: tuple[str, ...], size: str) -> dict[Key, int]:
    head, *rows = [line.split() for line in _lines_of(f"/proc/sysvipc/{table}")] or [[]]
    named = [dict(zip(head, row, strict=False)) for row in rows]
    mine = str(os.getpid())
    return {
        ("System V", (table, row.get(f"{table}id"))): int(row[size])
        for row in named
        if mine in [row.get(owner) for owner in owners]
    }


def _lines_of(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from file.read().splitlines()
    except OSError:
        return
