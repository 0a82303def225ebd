"""What a rank prints: caught at the file descriptor, handed to the parent, never written to the terminal.

Python's ``print``, C++ warnings and the output of child processes all end in file descriptors 1 and 2. In a rank
both lead to one private file, in the order of writing; the parent can read it even when the rank has died.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["Catcher", "read_text"]

KEEP_BYTES = 256 * 1024  # of one rank's text in one call; more than anybody reads


class Catcher:
    """In the rank: sends stdout and stderr to ``path`` for the rest of this process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            stream = open(  # noqa: SIM115 - it stays open as long as the process
                descriptor, "w", buffering=1, closefd=False, encoding="utf-8", errors="backslashreplace"
            )
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)

    def take(self) -> str:
        """What was written since the last call; the file is empty afterwards."""
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        size_bytes = os.fstat(self._file).st_size
        if size_bytes == 0:
            return ""
        text = _read(self._file, size_bytes)
        os.ftruncate(self._file, 0)
        return text


def read_text(path: Path) -> str:
    """In the parent: what a rank that no longer answers had written."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return ""
    try:
        return _read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def _read(file: int, size_bytes: int) -> str:
    if size_bytes <= KEEP_BYTES:
        return os.pread(file, size_bytes, 0).decode("utf-8", "replace")
    half = KEEP_BYTES // 2
    head = os.pread(file, half, 0).decode("utf-8", "replace")
    tail = os.pread(file, half, size_bytes - half).decode("utf-8", "replace")
    return f"{head}\n... {size_bytes - 2 * half} bytes left out ...\n{tail}"
