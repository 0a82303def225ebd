"""A control group of the rank's own, where the system lets it have one: a further count of what it takes.

Linux charges a page to the group of the process that first touched it, and keeps it there: files in memory that are
closed again, shared memory, and what every process takes that this one has started, whatever became of its parent.
Most ordinary users may not make groups; then there is none, and nothing is said of it. In version 1 the group is made
below the rank's own; in version 2 beside it, since below a group with processes none can count memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

__all__ = ["OwnGroup", "own_group"]

_NAME = "one-model-"
_PEAKS = ("memory.max_usage_in_bytes", "memory.peak")
_USAGES = ("memory.usage_in_bytes", "memory.current")


class OwnGroup:
    """A group with this process in it. What it cannot tell is None, or empty."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._began_bytes: int | None = None
        self._peak_fd = _opened(folder) if folder is not None else None

    @property
    def is_there(self) -> bool:
        return self._folder is not None

    def begin(self) -> None:
        """From now on it is the next step: its peak is to be told."""
        self._began_bytes = None
        if self._peak_fd is not None:
            with suppress(OSError):  # version 2 learned to forget a peak with Linux 6.12, for who keeps its file open
                os.pwrite(self._peak_fd, b"0\n", 0)
                self._began_bytes = self._number(_USAGES)

    def peak_bytes(self) -> int | None:
        """By how much the group grew at most in this step."""
        if self._peak_fd is None or self._began_bytes is None:
            return None
        return max(0, int(os.pread(self._peak_fd, 64, 0)) - self._began_bytes)

    def close(self) -> None:
        """No more peaks."""
        if self._peak_fd is not None:
            os.close(self._peak_fd)
            self._peak_fd = None

    def shared_bytes(self) -> int | None:
        """Of files in memory and memory that is shared, whoever holds it now."""
        for line in self._text("memory.stat").splitlines():
            name, _, number = line.partition(" ")
            if name == "shmem":
                return int(number)
        return None

    def others(self) -> tuple[int, ...]:
        """Numbers of the other processes in it."""
        return tuple(pid for pid in map(int, self._text("cgroup.procs").split()) if pid != os.getpid())

    def _number(self, names: tuple[str, ...]) -> int | None:
        return next((int(text) for name in names if (text := self._text(name)).strip().isdigit()), None)

    def _text(self, name: str) -> str:
        with suppress(OSError):
            if self._folder is not None:
                return (self._folder / name).read_text(encoding="ascii")
        return ""


@contextmanager
def own_group(folder: Path | None = None) -> Iterator[OwnGroup]:
    """In this block this process is in a group of its own. ``folder``: the group to begin from, by default its own."""
    home = folder or _home()
    made = _made(home) if home is not None else None
    group = OwnGroup(made)
    try:
        yield group
    finally:
        group.close()
        if made is not None and home is not None:
            with suppress(OSError):
                (home / "cgroup.procs").write_text(str(os.getpid()))
            with suppress(OSError):  # somebody is left in it
                made.rmdir()


def _opened(folder: Path) -> int | None:
    for name in _PEAKS:
        with suppress(OSError):
            return os.open(folder / name, os.O_RDWR)
    return None


def _made(home: Path) -> Path | None:
    """A group with this process in it; None where it may not be made, or would count no memory."""
    made = (home.parent if (home / "cgroup.controllers").exists() else home) / f"{_NAME}{os.getpid()}"
    with suppress(OSError):
        _sweep(made.parent)
        made.mkdir(exist_ok=True)
        try:
            if (made / "memory.stat").exists():
                (made / "cgroup.procs").write_text(str(os.getpid()))
                return made
        except OSError:
            pass
        made.rmdir()
    return None


def _sweep(place: Path) -> None:
    """Remove what ranks have left that were killed."""
    for one in place.glob(f"{_NAME}*"):
        number = one.name.removeprefix(_NAME)
        if number.isdigit() and not psutil.pid_exists(int(number)):
            with suppress(OSError):
                one.rmdir()


def _home() -> Path | None:
    """The folder of the group that this process is in and that counts memory."""
    with suppress(OSError, ValueError):
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        first = next((path for _, kinds, path in groups if "memory" in kinds.split(",")), None)
        second = next((path for number, _, path in groups if number == "0"), None)
        for mount in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = mount.partition(" - ")
            root, point = before.split()[3:5]
            kind, _, options = after.split(" ", 2)
            of_version_1 = kind == "cgroup" and "memory" in options.split(",") and first is not None
            path = first if of_version_1 else second if kind == "cgroup2" and first is None else None
            if path is not None and path.startswith(root):
                return Path(point, os.path.relpath(path, root))
    return None
