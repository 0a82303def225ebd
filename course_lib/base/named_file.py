"""A file that a person names, or that lies where others write: its bytes, or a sentence, and no waiting.

To open a pipe waits for somebody to write, a device such as /dev/zero has no end, and a file of gigabytes fills the
memory before anybody looks at it. So only a plain file is read, of so many bytes at most; and JSON, whose brackets
could be nested deeper than Python can follow.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["MOST_BYTES", "NotPlainError", "bytes_of", "json_of", "opened", "text_of"]

MOST_BYTES = 1 << 24  # 16 MiB: far more than any text or settings that a person keeps
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


class NotPlainError(OSError):
    """A file that is not read, whatever its owner allows; ``strerror`` says why."""


def bytes_of(path: Path, *, most_bytes: int = MOST_BYTES, links: bool = True) -> bytes:
    """What is in a plain file. With ``links=False`` a link is not followed.

    Raises:
        NotPlainError: It is no plain file, or larger than ``most_bytes``.
        OSError: It cannot be read.
    """
    with opened(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > most_bytes else file.read(most_bytes + 1)
    size = max(size, len(content))
    if size > most_bytes:
        raise _refused(path, f"it has {_amount(size)}, and {_amount(most_bytes)} are the most that is read")
    return content


def opened(path: Path, *, links: bool = True) -> BinaryIO:
    """A plain file, open for reading; the caller closes it. Raises as ``bytes_of``, of no size."""
    if not links and path.is_symlink():
        raise _refused(path, "it is a link, and links are not followed")
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)  # before it is opened: to open some devices does something
        if kind != stat.S_IFREG:
            raise _refused(path, f"it is {_KINDS.get(kind, 'something else')}, and only plain files are read")
        number = os.open(path, flags if links else flags | getattr(os, "O_NOFOLLOW", 0))
    except ValueError:  # a name that no file can have
        raise _refused(path, "no file can have this name") from None
    file = os.fdopen(number, "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _refused(path, "it is no plain file")
    return file


def text_of(path: Path, *, most_bytes: int = MOST_BYTES) -> str:
    """The text of a plain file in UTF-8. Raises OSError as ``bytes_of``, and ValueError for other bytes."""
    return bytes_of(path, most_bytes=most_bytes).decode("utf-8")


def json_of(path: Path, *, most_bytes: int = MOST_BYTES) -> Any:
    """The value of a JSON file. Raises OSError as ``bytes_of``, and ValueError for what is no JSON."""
    try:
        return json.loads(text_of(path, most_bytes=most_bytes))
    except RecursionError:
        raise ValueError("its brackets are nested deeper than can be read") from None


def _refused(path: Path, why: str) -> NotPlainError:
    return NotPlainError(errno.EINVAL, why, str(path))


def _amount(size_bytes: int) -> str:
    return f"{size_bytes >> 20:,} MiB" if size_bytes >= 1 << 20 else f"{size_bytes:,} bytes"
