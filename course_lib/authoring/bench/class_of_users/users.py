"""Learners of a bench: users of the system made for it, or homes of one account where this is not root."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

__all__ = ["User", "homes", "may_make_users", "processes_of", "unix_users"]

_COMMAND_LIMIT_S = 120


@dataclass(frozen=True)
class User:
    """A learner's home, and who they are to the system; None for the user who runs the bench."""

    name: str
    home: Path
    number: int | None = None
    group: int | None = None

    def as_them(self) -> dict[str, Any]:
        """The arguments of ``subprocess.Popen`` with which a program is theirs."""
        env = {
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }
        if self.number is None:
            return {"env": {**env, "COURSE_FOLDER": str(self.home / "lessons")}, "cwd": self.home}
        who = {"user": self.number, "group": self.group, "extra_groups": []}
        return {"env": env, "cwd": self.home, **who}


def may_make_users() -> bool:
    """Whether this is root on a system with the usual command for it."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("useradd") is not None


@contextlib.contextmanager
def homes(number: int, base: Path) -> Iterator[list[User]]:
    """Homes of one account below ``base``."""
    users = [User(f"learner{n}", base / f"learner{n}") for n in range(number)]
    for user in users:
        user.home.mkdir()
    yield users


@contextlib.contextmanager
def unix_users(number: int, base: Path) -> Iterator[list[User]]:
    """New users with names that nobody has, and homes below ``base``; at the end all that is theirs is removed.

    Raises:
        OSError: The system makes no user; none is left.
    """
    mark, users = secrets.token_hex(3), []
    try:
        for n in range(number):
            users.append(_make(f"learn-{mark}-{n}", base))
        yield users
    finally:
        for user in users:
            _remove(user)


def _make(name: str, base: Path) -> User:
    home = base / name
    command = ["useradd", "--create-home", "--home-dir", str(home), "--shell", "/bin/sh", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_LIMIT_S)
    if done.returncode != 0:
        raise OSError(done.returncode, f"useradd makes no user {name}: {done.stderr.strip()}")
    import pwd

    known = pwd.getpwnam(name)
    return User(name, home, known.pw_uid, known.pw_gid)


def _remove(user: User) -> None:
    """End what runs as the user, remove their files of the temporary folder, the user and the home."""
    for process in processes_of(user):
        with contextlib.suppress(psutil.Error):
            process.kill()
            process.wait(10)
    for path in Path(tempfile.gettempdir()).iterdir():
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == user.number:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    command = ["userdel", "--remove", user.name]
    subprocess.run(command, capture_output=True, timeout=_COMMAND_LIMIT_S)
    shutil.rmtree(user.home, ignore_errors=True)


def processes_of(user: User) -> list[psutil.Process]:
    """All that runs as a user of ours; nothing for a home of one account, whose processes have no mark."""
    if user.number is None:
        return []
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == user.number and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
