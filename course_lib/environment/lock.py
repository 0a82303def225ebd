"""One set-up at a time, and a request to stop that reaches it wherever it is."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from course_lib.environment.step import say

__all__ = ["alone"]


@contextlib.contextmanager
def alone(path: Path) -> Iterator[IO[str]]:
    """Hold the lock file, so that of two starts at once one sets up while the other waits for it.

    The steps of a set-up inherit the open file, and the lock with it: if ./course is killed outright, nobody else
    writes into .venv before the step that it had begun has ended.
    """
    # Closing it lets go of the lock, as the end of the process does. It is its owner's alone: who can read a file of
    # another user can lock it, and keep a set-up waiting for ever.
    with open(path, "a+", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        with contextlib.suppress(OSError):  # one that an older course has made
            os.chmod(path, 0o600)
        if not _try_lock(file):
            say(f"Another ./course is setting up .venv{_holder(path)}; waiting until it is done.")
            while not _try_lock(file):
                time.sleep(0.2)
        yield file


def _holder(path: Path) -> str:
    """The process that is at work there, as `run_step` has noted it; nothing where none can be read."""
    with contextlib.suppress(OSError, ValueError):
        return f" (its process {int(path.read_text())} is at work)"
    return ""


def _try_lock(file: IO[str]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some network file systems know no locks (ENOLCK, ENOTSUP): there, nothing keeps two starts apart.
        return error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
    return True
