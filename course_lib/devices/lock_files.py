"""A folder that all users of a machine share, in which each running process of the course holds a file locked.

A lock (flock) belongs to the process and ends with it, however it ends: a file whose lock is free counts for nothing,
whatever it says. Its owner's next process removes it.

Nobody there is trusted. The folder is opened once, not through a link, and everything goes through that handle. Our
file is a new one; of others' files, and not of more than 1,024 of them, we read a few bytes, not through links, and
wait for none. What another user can do is hold files that say something untrue: then GPUs are spread less evenly.

Sources: flock(2), open(2); Linux, Documentation/admin-guide/sysctl/fs.rst (protected_regular).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["MOST_FILES", "VARIABLE", "Folder", "LockFile", "UnavailableError", "folder_for"]

VARIABLE = "COURSE_SEATS"
_NAME = "one-model-many-gpus-seats"
_SHARED = ("/dev/shm", "/tmp")  # not TMPDIR: it is often a user's own
_PREFIX = "seat-"
_MOST_BYTES = 8192
MOST_FILES = 1024  # more than a machine has notebooks; each costs some microseconds
_YOUNG_S = 60.0  # a file so young may be about to get its lock
_WAIT_S = 1.0  # for the others that are choosing at this moment, each for some milliseconds
_ABOUT = (
    "Each file beside this one is held locked by a running process of the course One Model, Many GPUs, so that\n"
    "notebooks on this machine spread over its GPUs. A file that nobody holds locked counts for nothing.\n"
)


class UnavailableError(Exception):
    """Why there are no lock files here, in a few words that follow "because"."""


class LockFile:
    """A file of this process, locked until ``close`` or the end of the process."""

    def __init__(self, folder: Folder, name: str, descriptor: int) -> None:
        self.name, self._folder, self._descriptor = name, folder, descriptor

    def write(self, text: str) -> None:
        """Replace what the file says."""
        content = text.encode()[:_MOST_BYTES]
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))

    def close(self) -> None:
        """Remove the file and free its lock. Safe to repeat."""
        if self._descriptor >= 0:
            self._folder.remove(self.name)
            self.forget()

    def forget(self) -> None:
        """In a fork: let go of the lock without freeing it, since it is the parent's."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Folder:
    """The shared folder, open; ``path`` is where it was found."""

    def __init__(self, path: Path) -> None:
        try:
            import fcntl
        except ImportError:
            raise UnavailableError("this system has no flock") from None
        self._fcntl = fcntl
        self.path = path
        self.keeps_waiting = False  # whether somebody has kept us waiting for longer than that: then we wait no more
        self.is_crowded = False  # whether there were more files than are looked at
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            self._descriptor = os.open(path, flags)
        except FileNotFoundError:
            self._descriptor = os.open(_made(path), flags)

    def close(self) -> None:
        """Close the folder. Locks on files in it stay."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    @contextlib.contextmanager
    def alone(self, wait_s: float = _WAIT_S) -> Iterator[bool]:
        """In this block no other process chooses; False where somebody keeps us waiting for longer than ``wait_s``.

        Any user of the machine can keep the folder locked. So it is waited for once, and tried from then on.
        """
        end_s, is_alone = time.monotonic() + wait_s, self._lock(self._descriptor)
        while not is_alone and not self.keeps_waiting and time.monotonic() < end_s:
            time.sleep(0.002)
            is_alone = self._lock(self._descriptor)
        self.keeps_waiting = not is_alone
        try:
            yield is_alone
        finally:
            if is_alone:
                self._fcntl.flock(self._descriptor, self._fcntl.LOCK_UN)

    def hold(self, text: str) -> LockFile:
        """A new file that this process holds locked. Raises ``OSError`` where none can be made."""
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        held = LockFile(self, name, os.open(name, flags, 0o600, dir_fd=self._descriptor))
        try:
            os.fchmod(held._descriptor, 0o644)  # whatever the umask: others are to read it
            if not self._lock(held._descriptor):
                raise OSError("another process has locked our file")
            held.write(text)
        except BaseException:
            held.close()
            raise
        return held

    def held_by_others(self, *, own: str = "") -> dict[str, str]:
        """What each file says that some process holds locked, by name; all but ``own``. Removes our dead ones.

        Of more than ``MOST_FILES`` some are not looked at, and ``is_crowded`` says so.
        """
        with os.scandir(self._descriptor) as entries:
            names = (entry.name for entry in entries if entry.name.startswith(_PREFIX) and entry.name != own)
            seen = sorted(itertools.islice(names, MOST_FILES))
            self.is_crowded = next(names, None) is not None
        return {name: text for name in seen if (text := self._text_if_held(name)) is not None}

    def is_held(self, name: str) -> bool:
        """Whether some process holds the file of this name locked."""
        return os.path.basename(name) == name and self._text_if_held(name) is not None

    def remove(self, name: str) -> None:
        """Remove a file, where this user may."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._descriptor)

    def _text_if_held(self, name: str) -> str | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe by this name would keep us waiting
        try:
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            if not self._lock(descriptor, shared=True):
                return os.read(descriptor, _MOST_BYTES).decode(errors="replace")
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG_S:
                self.remove(name)
            return None
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int, *, shared: bool = False) -> bool:
        kind = self._fcntl.LOCK_SH if shared else self._fcntl.LOCK_EX
        try:
            self._fcntl.flock(descriptor, kind | self._fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def folder_for(env: Mapping[str, str]) -> Folder:
    """The folder that ``COURSE_SEATS`` names, else one in memory or beside other temporary files.

    Raises ``UnavailableError`` with the reason where there is none, or none that takes our file.
    """
    named = env.get(VARIABLE, "").strip()
    if named.lower() == "off":
        raise UnavailableError(f"{VARIABLE}=off")
    path = Path(named).expanduser()
    if named and not path.is_absolute():
        raise UnavailableError(f"{VARIABLE}={named} is no absolute path")
    reasons = []
    for place in [path] if named else [Path(base, _NAME) for base in _SHARED if os.path.isdir(base)]:
        try:
            folder = Folder(place)
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
            continue
        if os.access(place, os.W_OK | os.X_OK):
            return folder
        folder.close()
        reasons.append(f"{place} takes no file from this user")
    raise UnavailableError("; ".join(reasons) or "there is no folder that all users share")


def _made(path: Path) -> Path:
    """Make the folder for everybody, in one step: nobody meets it half made."""
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        (draft / "README").write_text(_ABOUT)  # a folder that is not empty cannot be replaced by another
        (draft / "README").chmod(0o644)
        draft.chmod(0o1777)
        with contextlib.suppress(OSError):  # somebody else was first
            draft.rename(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return path
