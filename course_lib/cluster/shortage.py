"""Errors of the system in words: a full disk, too many open files, a temporary folder that has gone."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["told"]

_ELSEWHERE = "set TMPDIR to {} before Python starts"


@contextlib.contextmanager
def told(folder: Path | None = None) -> Iterator[None]:
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
    parent = folder if folder == Path(tempfile.gettempdir()) else folder.parent
    if error.errno == errno.ENOENT and not parent.is_dir():
        where = _ELSEWHERE.format("one that is there")
        return f"the temporary folder {parent} has gone. Make it again, or {where}"
    return ""


def _limit() -> str:
    try:
        import resource

        return f"this process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} at a time"
    except ImportError:  # Windows
        return "this process has as many as it may"
