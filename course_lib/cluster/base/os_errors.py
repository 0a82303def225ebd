"""Errors of the system in words: a full disk, too many open files, a temporary folder that has gone."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

__all__ = ["check_processes", "explained", "processes_in_words"]

_ELSEWHERE = "set TMPDIR to {} before Python starts"


@contextlib.contextmanager
def explained(folder: Path | None = None) -> Iterator[None]:
    """Add to an ``OSError`` of this block what is short, where, and what to do. ``folder``: where the block writes."""
    try:
        yield
    except OSError as error:
        advice = _advice(error, folder or Path(tempfile.gettempdir()))
        if not advice:
            raise
        raise OSError(error.errno, advice) from None


def _advice(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = _ELSEWHERE.format("a folder with room")
        return f"{error.strerror}: {folder} is full. Free some space there, or {where}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return (
            f"{error.strerror}: {_limit()}. Close clusters and files that you need no more (cluster.close()), or raise "
            "the limit with `ulimit -n 4096` before Python starts"
        )
    if error.errno == errno.EAGAIN and (text := processes_in_words()):
        return f"{error.strerror}: {text}"
    parent = folder if folder == Path(tempfile.gettempdir()) else folder.parent
    if error.errno == errno.ENOENT and not parent.is_dir():
        where = _ELSEWHERE.format("one that is there")
        return f"the temporary folder {parent} has gone. Make it again, or {where}"
    return ""


def check_processes(num_ranks: int) -> None:
    """Raise ``OSError`` where this user may not have as many processes and threads more as the ranks take at least.

    Without it the system refuses one after the other, late and in many voices.
    """
    left = _processes_left(enough=_OF_SERVERS + num_ranks * _OF_A_RANK)
    if left is not None:
        raise OSError(
            errno.EAGAIN,
            f"{num_ranks} rank{'s' * (num_ranks > 1)} and what starts them take {_OF_SERVERS + num_ranks * _OF_A_RANK} "
            f"processes and threads, and {left} more are allowed: {processes_in_words()}",
        )


def processes_in_words() -> str:
    """How many processes this user may have, and what to do; empty where there is no limit."""
    limit = _most_processes()
    if limit is None:
        return ""
    return (
        f"this user may have {limit} processes and threads at a time. End some (other notebooks, say), or raise the "
        f"limit with `ulimit -u {max(4096, 4 * limit)}` before Python starts"
    )


_OF_SERVERS = 2  # the fork server, and the tracker of multiprocessing
_OF_A_RANK = 3  # its work, its answers, its messages; gloo has some more, and so has arithmetic


def _most_processes() -> int | None:
    """None where there is no limit, or none for this user."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    except (ImportError, AttributeError):
        return None
    return None if limit == resource.RLIM_INFINITY or os.getuid() == 0 else limit


def _processes_left(*, enough: int) -> int | None:
    """How many more processes and threads this user may have, where they are fewer than ``enough``; else None."""
    limit = _most_processes()
    if limit is None or limit > _MANY:
        return None  # to count them all takes longer than to find out
    used, uid = 0, os.getuid()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == uid:
                used += process.num_threads()
    return limit - used if limit - used < enough else None


_MANY = 2000


def _limit() -> str:
    try:
        import resource

        return f"this process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} at a time"
    except ImportError:  # Windows
        return "this process has as many as it may"
