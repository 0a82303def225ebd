"""Drafts of a checkpoint: each writer has its own, holds a lock on it, and removes those that nobody holds.

A lock ends with its process, however it dies; so a draft with a free lock was left by a writer that did not finish.
"""

from __future__ import annotations

import contextlib
import glob
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["draft_of", "drafts_of"]


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new draft beside ``path``, open for writing. It is removed at the end, unless it was renamed."""
    for stale in drafts_of(path):
        _remove_if_left(stale)
    draft, file = _open_draft(path)
    try:
        with file:
            yield draft, file
    finally:
        draft.unlink(missing_ok=True)


def drafts_of(path: Path) -> list[Path]:
    """The drafts that lie beside ``path``: of saves that did not finish, or are at it now."""
    return sorted(path.parent.glob(f".{glob.escape(path.name)}.*.draft"))


def _open_draft(path: Path) -> tuple[Path, BinaryIO]:
    while True:
        draft = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.draft")
        file = draft.open("xb")
        try:
            _lock(file, wait=True)
            if draft.exists():
                return draft, file
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise
        file.close()  # another writer took it for a stale one before it was locked


def _remove_if_left(draft: Path) -> None:
    with contextlib.suppress(OSError), draft.open("rb+") as file:
        if _lock(file, wait=False):
            draft.unlink(missing_ok=True)


def _lock(file: BinaryIO, *, wait: bool) -> bool:
    """Whether this process holds the file's lock now; False where the system has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True
