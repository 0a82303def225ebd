"""12.job: what a kill would leave of a folder, at each moment of a save, and what a save has written.

Python tells an audit hook before a file is opened, renamed or removed. Between two such moments a file that has changed
was being written, by whatever means: a kill may leave half of it. When a save has returned, what was not synced may be
lost by a power failure. So all states of the folder are known without killing anybody.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

__all__ = ["WHEN_RETURNED", "DiskState", "DiskStates", "put", "read_folder", "watched_folder"]

WHEN_RETURNED = "when it had returned there, and the writer was slow"
Files = dict[str, bytes | None]  # by path within the folder; None is a folder
_FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
_BEGINNING_S = 1_700_000_000  # of the files in a copy, in seconds of the system's clock
_active: list[DiskStates] = []
_is_hooked = False


@dataclass(frozen=True)
class DiskState:
    """A folder as a kill may leave it. ``is_after``: when the save had returned, so that it has to be found."""

    files: Files
    moment: str
    is_after: bool = False


def read_folder(folder: Path) -> Files:
    """All that lies in this folder now, the files that were changed last at the end."""
    found: list[tuple[int, str, bytes | None]] = []
    for path in sorted(folder.rglob("*")):
        try:
            content = None if path.is_dir() else path.read_bytes()
            time_ns = 0 if content is None else path.stat().st_mtime_ns
        except OSError:  # another rank has just moved it
            continue
        found.append((time_ns, path.relative_to(folder).as_posix(), content))
    return {name: content for _, name, content in sorted(found, key=lambda one: one[:2])}


def put(files: Files, folder: Path) -> None:
    """Make this folder hold these files, each a second younger than the one before it."""
    folder.mkdir(parents=True, exist_ok=True)
    for age_s, (name, content) in enumerate(files.items()):
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, (_BEGINNING_S + age_s, _BEGINNING_S + age_s))


def different_states(of_ranks: Sequence[Sequence[DiskState]]) -> list[tuple[int, DiskState]]:
    """Each state once, with the first rank that has seen it."""
    found: dict[Any, tuple[int, DiskState]] = {}
    for rank, states in enumerate(of_ranks):
        for state in states:
            found.setdefault((frozenset(state.files.items()), state.is_after), (rank, state))
    return list(found.values())


@dataclass
class DiskStates:
    """What this rank's save does to ``folder``; ``late_s`` delays its first file, ``is_full`` lets none be opened."""

    folder: Path
    late_s: float = 0.0
    is_full: bool = False
    refused: int = 0  # files that were to be opened on a full disk
    states: list[DiskState] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)  # bytes by file that this rank has opened
    _known: Files = field(default_factory=dict)
    _synced: Files = field(default_factory=dict)
    _is_looking: bool = False

    def begin(self) -> None:
        self._known = read_folder(self.folder)
        self.states.append(DiskState(dict(self._known), "before it began"))

    def before(self, event: str, paths: list[str]) -> None:
        """Look at the folder before this is done."""
        if self._is_looking:
            return
        self._is_looking = True
        try:
            self._before(event, paths)
        finally:
            self._is_looking = False

    def _before(self, event: str, paths: list[str]) -> None:
        names = [self._name(path) for path in paths]
        if not any(names):
            return
        verb = {"open": "to write", "os.rename": "to rename", "os.remove": "to remove", "os.mkdir": "to make"}
        self._look(f"as it began {verb.get(event, 'to change')} {next(filter(None, names))}")
        if event == "open":
            self._opened(names[0])
        elif event == "os.rename":
            self._rename(*names)
        elif event in ("os.remove", "os.rmdir"):
            self._known.pop(names[0], None)

    def _opened(self, name: str) -> None:
        if self.is_full:
            self.refused += 1
            raise _FULL
        if self.late_s:
            time.sleep(self.late_s)
            self.late_s = 0.0
        if name:
            self.written.setdefault(name, 0)

    def _rename(self, source: str, target: str) -> None:
        for name in [one for one in self._known if one == source or one.startswith(f"{source}/")]:
            to = target + name[len(source) :]
            content = self._known.pop(name)
            if to:
                self._known[to] = content
            if name in self._synced:
                self._synced[to] = self._synced.pop(name)
            if name in self.written:
                self.written[to] = self.written.pop(name)

    def synced(self, descriptor: int) -> None:
        """The file of this number is on the disk as it is now."""
        self._is_looking = True
        try:
            there = os.fstat(descriptor)
            for path in self.folder.rglob("*"):
                if path.is_file() and os.path.samestat(there, path.stat()):
                    self._synced[self._name(str(path))] = path.read_bytes()
        finally:
            self._is_looking = False

    def end(self) -> None:
        """The save has returned on every rank."""
        self._look("at its end")
        now = dict(self._known)
        self.states.append(DiskState(now, "when it had returned", is_after=True))
        lost = [name for name in self.written if name in now and now[name] != self._synced.get(name)]
        if lost:
            files = now | dict.fromkeys(lost, b"")
            told = f"when it had returned, and the power failed: {lost[0]} was not synced"
            self.states.append(DiskState(files, told, is_after=True))

    def _look(self, moment: str) -> None:
        """Note the folder as it is, and with halves of what was written since the last look."""
        now = read_folder(self.folder)
        changed = [name for name in self.written if now.get(name) and now[name] != self._known.get(name, b"")]
        for name in changed:
            content = now[name] or b""
            self.states.append(DiskState(now | {name: content[: len(content) // 2]}, f"as it wrote {name}"))
            self.written[name] = max(self.written[name], len(content))
        if now != self._known or not self.states or self.states[-1].files != now:
            self.states.append(DiskState(dict(now), moment))
        self._known = now

    def _name(self, path: str) -> str:
        """Its place in the folder; "" for what lies elsewhere."""
        inside = os.path.relpath(os.path.abspath(path), self.folder)
        return "" if inside.startswith("..") or inside == "." else Path(inside).as_posix()


_WRITES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir")


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _active or event not in (*_WRITES, "open"):
        return
    if event == "open":
        path, _mode, flags = args
        if not isinstance(path, str | bytes | os.PathLike) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        paths = [path]
    else:
        paths = [one for one in args if isinstance(one, str | bytes | os.PathLike)]
    for one in _active:
        one.before(event, [os.fsdecode(path) for path in paths])


@contextmanager
def watched_folder(folder: Path, **settings: Any) -> Iterator[DiskStates]:
    """Watch what this process does in ``folder`` meanwhile. ``end()`` is for who uses it."""
    global _is_hooked
    if not _is_hooked:
        sys.addaudithook(_hook)  # it stays for ever, and looks away where nobody watches
        _is_hooked = True
    seen = DiskStates(Path(os.path.abspath(folder)), **settings)
    fsync, fdatasync, save = os.fsync, os.fdatasync, torch.save

    def synced(fd: Any) -> None:
        fsync(fd)
        seen.synced(fd if isinstance(fd, int) else fd.fileno())

    def saved(what: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(file, str | os.PathLike):  # it is opened by C++, which tells nobody
            seen.before("open", [os.fspath(file)])
        save(what, file, *args, **kwargs)

    seen.begin()
    os.fsync, os.fdatasync, torch.save = synced, synced, saved
    _active.append(seen)
    try:
        yield seen
    finally:
        _active.remove(seen)
        os.fsync, os.fdatasync, torch.save = fsync, fdatasync, save
