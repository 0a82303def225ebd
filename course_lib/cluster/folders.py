"""The private folder of one team of ranks, or of a server's kernels, and what killed notebooks have left of theirs.

The notebook holds a lock on a file in the folder for as long as it lives. A folder whose lock is free has lost its
owner, and the next notebook of the same user removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from functools import lru_cache
from pathlib import Path

__all__ = ["make", "remove"]

_PREFIX = "ranks-"
_LOCK = "owner"
_YOUNG_S = 60.0  # a folder so young may be about to get its lock

_held: dict[Path, int] = {}  # the descriptor that holds the lock, by folder


def make(parent: Path | None = None) -> Path:
    """A new folder that this user alone can read, in ``parent`` or in the folder for temporary files."""
    _sweep(str(parent or tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    _held[folder] = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    _lock(_held[folder])
    return folder


def remove(folder: Path) -> None:
    """Remove the folder with all that is in it. Safe to repeat."""
    shutil.rmtree(folder, ignore_errors=True)
    descriptor = _held.pop(folder, None)
    if descriptor is not None:
        os.close(descriptor)


@lru_cache  # once in the life of a notebook
def _sweep(parent: str) -> None:
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    status = folder.lstat()
    mine = stat.S_ISDIR(status.st_mode) and hasattr(os, "getuid") and status.st_uid == os.getuid()
    if not mine or time.time() - status.st_mtime < _YOUNG_S:
        return
    descriptor = os.open(folder / _LOCK, os.O_RDWR)
    try:
        if _lock(descriptor):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Whether the lock is ours now; never where the system has none."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
