"""Temporary folders of the ranks and of a server's kernels, and those that killed notebooks have left.

The notebook holds a lock on a file in the folder for as long as it lives. A folder whose lock is free has lost its
owner, and the next notebook of the same user removes it. The folder in which multiprocessing has the socket of the fork
server gets such a lock too; it names that server, which is ended where it is still there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import psutil

__all__ = ["hold", "make", "remove"]

_PREFIX = "ranks-"
_DRAFT = ".ranks-"  # it has no lock yet
_OF_MULTIPROCESSING = "pymp-"
_LOCK = "owner"
_YOUNG_S = 60.0  # a draft so young is about to get its lock

_held: dict[Path, int] = {}  # the descriptor that holds the lock, by folder


def make(parent: Path | None = None) -> Path:
    """A new folder that this user alone can read, in ``parent`` or in the folder for temporary files."""
    parent = Path(parent or tempfile.gettempdir())
    _sweep(parent)
    draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=parent))
    descriptor = _locked(draft)
    folder = draft.rename(parent / draft.name.removeprefix("."))  # whoever sees it finds it locked
    _held[folder] = descriptor
    return folder


def hold(folder: Path, server_pid: int) -> None:
    """Lock a folder of multiprocessing for as long as this process lives; it is the fork server's. Safe to repeat."""
    if folder not in _held and os.name == "posix":
        with contextlib.suppress(OSError, psutil.Error):
            began_s = psutil.Process(server_pid).create_time()
            _held[folder] = _locked(folder)
            os.pwrite(_held[folder], json.dumps([server_pid, began_s]).encode(), 0)


def remove(folder: Path) -> None:
    """Remove the folder with all that is in it. Safe to repeat."""
    shutil.rmtree(folder, ignore_errors=True)
    descriptor = _held.pop(folder, None)
    if descriptor is not None:
        os.close(descriptor)


@lru_cache  # once in the life of a notebook
def _sweep(parent: Path) -> None:
    for prefix in (_PREFIX, _DRAFT, _OF_MULTIPROCESSING):
        for folder in parent.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    status = folder.lstat()
    mine = stat.S_ISDIR(status.st_mode) and hasattr(os, "getuid") and status.st_uid == os.getuid()
    is_draft = folder.name.startswith(_DRAFT)
    if not mine or folder in _held or (is_draft and time.time() - status.st_mtime < _YOUNG_S):
        return
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if _lock(descriptor):
            _end_server(os.pread(descriptor, 1000, 0))
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _end_server(answer: bytes) -> None:
    """End the fork server that a folder names: its notebook has gone, and nobody else can reach it."""
    with contextlib.suppress(ValueError, TypeError, psutil.Error):
        pid, began_s = json.loads(answer)
        server = psutil.Process(int(pid))
        if server.create_time() == began_s and server.uids().real == os.getuid():  # not another by the same number
            server.kill()


def _locked(folder: Path) -> int:
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    _lock(descriptor)
    return descriptor


def _lock(descriptor: int) -> bool:
    """Whether the lock is ours now; never where the system has none."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
