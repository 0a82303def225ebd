"""Servers that a test starts in the foreground: they end with the test's process, however that ends."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

_END_LIMIT_S = 60


def ends_with_us(command: Sequence[str | Path]) -> list[str]:
    """The command line of a program that gets SIGTERM when the process that started it is gone."""
    keeper = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    return [*keeper, *map(str, command)]


def end(servers: Sequence[subprocess.Popen[bytes]], left: Iterable[psutil.Process] = ()) -> None:
    """SIGTERM to each, the last one first; then SIGKILL to who is still there, and to all of ``left``."""
    for server in reversed(servers):
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_END_LIMIT_S)
    for one in (*servers, *left):
        with contextlib.suppress(psutil.Error):
            one.kill()
    for server in servers:
        server.wait()


def processes_with(name: str, value: str) -> list[psutil.Process]:
    """All processes with this variable in the environment with which they were started."""
    return [one for one in psutil.process_iter() if _environment(one).get(name) == value]


def _environment(process: psutil.Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}
