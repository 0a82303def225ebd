"""A command in a process of its own, with a limit: it is ended with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

__all__ = ["OWN_SESSION", "Ended", "kill_tree", "run_child"]

OWN_SESSION: dict[str, Any] = {} if os.name == "nt" else {"start_new_session": True}
"""How a process is started whose children are to be found when it is gone."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, None where the limit ended it; and all that it wrote."""

    code: int | None
    output: str
    time_s: float


def run_child(command: Sequence[str], *, limit_s: float, folder: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run a command in ``folder`` to its end or its limit, in seconds."""
    began_s = time.monotonic()
    with tempfile.TemporaryFile() as file:  # not a pipe, which what it leaves behind would hold open
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            **OWN_SESSION,
        )
        code: int | None = None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.wait(limit_s)
        finally:
            kill_tree(child)
        file.seek(0)
        text = file.read().decode("utf-8", "replace")
    return Ended(code, text, time.monotonic() - began_s)


def kill_tree(child: subprocess.Popen[Any]) -> None:
    """End a process and all that it has started and that still runs; the child was started by ``OWN_SESSION``."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(child.pid)
        process.suspend()  # so that it starts nothing more while its children end
        for one in [*process.children(recursive=True), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
    if os.name != "nt":  # what lost its parent is no child of anybody's here, but still of the session
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
