"""What a process does beside the meter: files that it writes, sockets and shared memory that it opens.

Python tells its audit hooks. A hook stays for the life of a process; this one listens while somebody asks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch._C._distributed_c10d import Store

from course_lib.cluster.failure import is_user_code

__all__ = ["heard"]

_SOCKETS = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"})
_LEAST_BYTES = 1024  # through a store: below, it is a word
_listening: list[list[str]] = []  # the one place that the hook can reach
_hooked: list[bool] = []


@contextmanager
def heard() -> Iterator[list[str]]:
    """In this block: sentences' ends, as "writes the file /tmp/x", in the list that is given."""
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    notes: list[str] = []
    plain_set, plain_save = Store.set, torch.save

    def set_(store: Any, key: str, value: Any) -> Any:
        if len(value) >= _LEAST_BYTES and _is_asked_for(sys._getframe(1)):
            notes.append(f"puts {len(value):,} bytes into a store")
        return plain_set(store, key, value)

    def save(what: Any, where: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(where, (str, os.PathLike)):
            notes.append(f"writes the file {os.fspath(where)}")
        return plain_save(what, where, *args, **kwargs)

    Store.set, torch.save = set_, save  # type: ignore[method-assign, assignment]
    _listening.append(notes)
    try:
        yield notes
    finally:
        _listening.remove(notes)
        Store.set, torch.save = plain_set, plain_save  # type: ignore[method-assign]


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _listening:
        return
    try:
        note = _note(event, arguments)
        if note and note not in _listening[-1] and _is_asked_for(sys._getframe(1)):
            _listening[-1].append(note)
    except Exception:  # a hook that raises would end what it listens to
        return


def _note(event: str, arguments: tuple[Any, ...]) -> str:
    """What an event comes to, in words; empty for what does no harm."""
    if event in _SOCKETS:
        return "opens a socket of its own"
    if event == "mmap.__new__" and arguments[1] >= _LEAST_BYTES:
        return f"maps {arguments[1]:,} bytes of memory that others can see"
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        writes = any(letter in (arguments[1] or "") for letter in "wax+")
        if writes and not path.endswith(".pyc") and ".pyc." not in path and path != os.devnull:
            return f"writes the file {path}"
    return ""


def _is_asked_for(frame: FrameType | None) -> bool:
    """Whether somebody's own code is behind it, and no import; shaped links and caught text have files of their own."""
    own = False
    while frame is not None:
        name = frame.f_code.co_filename.replace("\\", "/")
        if "importlib" in name or ("/course_lib/cluster/" in name and not own and "rank_process" not in name):
            return False
        own = own or is_user_code(frame.f_code.co_filename)
        frame = frame.f_back
    return own
