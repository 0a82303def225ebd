"""What a function may leave at the operating system and the processor: limits, rights, priorities, rounding."""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from course_lib.cluster.state.rounding_mode import rounding_mode
from course_lib.cluster.state.setting import Setting, refuse, silent

__all__ = ["settings_of_system"]


def settings_of_system() -> tuple[Setting, ...]:
    rows: list[Setting] = [
        Setting("the timeout of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout, silent)
    ]
    if os.name != "posix":
        return tuple(rows)
    rows += [
        rounding_mode(),
        *_limits(),
        Setting(
            "the mask of new files",
            _mask,
            os.umask,
            lambda now: f"the mask of new files (umask) at {now:03o}",
        ),
        Setting("the rights", _rights, _set_rights, lambda now: f"the process with the rights of user {now[0][1]}"),
        Setting("the root folder", _root, refuse, lambda _: "another root folder (chroot)"),
        Setting("the niceness", _niceness, _set_niceness, lambda now: f"the niceness at {now}"),
    ]
    if hasattr(os, "sched_getaffinity"):
        rows.append(
            Setting(
                "the cores",
                functools.partial(os.sched_getaffinity, 0),
                functools.partial(os.sched_setaffinity, 0),
                lambda now: f"the cores that it may use at {len(now)}",
            )
        )
    return tuple(rows)


def _limits() -> list[Setting]:
    import resource

    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    numbers: dict[int, str] = {}
    for name in names:  # some have two names
        numbers.setdefault(getattr(resource, name), name)

    def describe(name: str) -> Callable[[Any], str]:
        return lambda now: f"the limit {name} at {now[0] if now[0] != resource.RLIM_INFINITY else 'none'}"

    return [
        Setting(
            f"the limit {name}",
            functools.partial(resource.getrlimit, number),
            functools.partial(resource.setrlimit, number),
            describe(name),
        )
        for number, name in numbers.items()
    ]


def _mask() -> int:
    """It can be read only by setting it; for that moment nobody else may read new files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _rights() -> tuple[tuple[int, ...], ...]:
    if sys.platform == "darwin":
        return (os.getuid(), os.geteuid()), (os.getgid(), os.getegid()), tuple(os.getgroups())
    return os.getresuid(), os.getresgid(), tuple(os.getgroups())


def _set_rights(wanted: tuple[tuple[int, ...], ...]) -> None:
    """Back to the rights of a fresh rank, where this process may still take them."""
    users, groups, more = wanted
    if sys.platform == "darwin":
        os.seteuid(users[1])
        os.setegid(groups[1])
    else:
        os.setresuid(*users)  # first: the rest may take the rights that come with it
        os.setresgid(*groups)
        if tuple(os.getgroups()) != more:
            os.setgroups(list(more))
    if _rights() != wanted:
        raise PermissionError("these rights cannot be taken again")


def _root() -> tuple[int, int]:
    status = os.stat("/")
    return status.st_dev, status.st_ino


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def _set_niceness(wanted: int) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, wanted)
