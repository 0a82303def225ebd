"""Leaked shared memory: blocks that a function made by name and did not remove; they would stay in /dev/shm.

``multiprocessing.shared_memory`` has a process of its own to remove it, which ends with the rank. So each name is noted
as it is made, in the rank's folder too: where the rank dies, the notebook removes it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["install", "remove_left", "remove_noted"]

_FOLDER = Path("/dev/shm")
_FILE = "shared-memory-{}"
_made: list[str] = []  # by the present call, or since the last look


def install(folder: Path, rank: int) -> None:
    """Note each name from now on, in this process and in its forks."""
    if sys.platform != "linux":
        return
    import _posixshmem

    notes = os.open(folder / _FILE.format(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    vars(_posixshmem)["shm_open"] = _noting(_posixshmem.shm_open, notes)


def _noting(shm_open: Callable[..., int], notes: int) -> Callable[..., int]:
    def opened(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = shm_open(path, flags, mode=mode)
        if flags & os.O_CREAT:
            _made.append(path)
            with contextlib.suppress(OSError):  # a function may have closed it
                os.write(notes, f"{path}\n".encode())
        return descriptor

    return opened


def remove_left() -> tuple[str, ...]:
    """Remove what is still there; a line for each."""
    lines = []
    while _made:
        path = _path(_made.pop(0))
        with contextlib.suppress(OSError):
            size_bytes = path.stat().st_size
            path.unlink()
            lines.append(f"left shared memory in /dev/shm ({path.name}, {size_bytes:,} bytes), which was removed")
    return tuple(lines)


def remove_noted(folder: Path) -> None:
    """In the notebook: remove what ranks that have ended had noted."""
    for notes in folder.glob(_FILE.format("*")):
        with contextlib.suppress(OSError):
            for name in notes.read_text(errors="replace").split("\n"):
                if name.strip("/"):
                    with contextlib.suppress(OSError):
                        _path(name).unlink()


def _path(name: str) -> Any:
    return _FOLDER / Path(name).name
