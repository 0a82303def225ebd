"""Captures what a rank prints, at the file descriptor, and hands it to the parent; nothing reaches the terminal.

Python's ``print``, C++ warnings and the output of child processes all end in file descriptors 1 and 2. In a rank
both lead to one private file, in the order of writing; the parent can read it even when the rank has died.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

__all__ = ["Catcher", "read_text"]

KEEP_BYTES = 256 * 1024  # of one rank's text in one call; more than anybody reads


class Catcher:
    """In the rank: sends stdout and stderr to ``path`` for the rest of this process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._streams: dict[str, TextIO] = {}
        self._catch()

    def _catch(self) -> None:
        """Lead both streams to the file, whatever a function has done to them: closed, replaced, set to None."""
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            if not _leads_to(self._file, descriptor):
                os.dup2(self._file, descriptor)
            if name not in self._streams or self._streams[name].closed:
                self._streams[name] = open(  # noqa: SIM115 - it stays open as long as the process
                    descriptor, "w", buffering=1, closefd=False, encoding="utf-8", errors="backslashreplace"
                )
            setattr(sys, name, self._streams[name])
            setattr(sys, f"__{name}__", self._streams[name])

    def flush(self) -> None:
        """Write out what streams still hold: ours, and those that a function has put in their place."""
        for stream in (sys.stdout, sys.stderr, *self._streams.values()):
            with contextlib.suppress(Exception):  # a learner's own object may lack flush, or refuse
                stream.flush()

    def take(self) -> str:
        """What was written since the last call; the file is empty, and both streams lead to it, afterwards."""
        self.flush()
        self._catch()
        size_bytes = os.fstat(self._file).st_size
        if size_bytes == 0:
            return ""
        text = _read(self._file, size_bytes)
        os.ftruncate(self._file, 0)
        return text


def _leads_to(file: int, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.fstat(file))
    except OSError:  # it was closed
        return False


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
