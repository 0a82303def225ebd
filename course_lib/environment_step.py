"""Runs one step of the set-up, with its output kept back, and says what its failure means.

Standard library alone, as in environment.py, which uses it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

__all__ = ["AGAIN", "SetupError", "disk_full", "run_step", "say"]

AGAIN = "Run the same command again to go on; what pip has fetched is kept in its cache."
_LAST_LINES = 12


class SetupError(Exception):
    """The set-up cannot go on; the text says why and what to do, in sentences for the learner."""


def say(text: str) -> None:
    """Tell the learner something: on stderr, since stdout belongs to the verb that runs afterwards."""
    print(text, file=sys.stderr, flush=True)


def run_step(command: Sequence[str], label: str, *, cwd: str) -> None:
    """Run one step with its output kept back: a line with its time, and upon failure its last lines."""
    # `user = true` is common in pip's settings on shared machines, and cannot work inside an environment.
    env = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    start_s = time.monotonic()
    # A group of its own on POSIX: pip starts builds, and stopping the step must stop those too.
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=cwd,
        process_group=0 if os.name == "posix" else None,
    )
    lines: list[str] = []
    assert child.stdout is not None
    reader = threading.Thread(target=_collect, args=(child.stdout, lines), daemon=True)
    reader.start()
    try:
        _watch(child, label, lines)
    except BaseException:
        _stop(child)
        raise
    reader.join(5)  # a grandchild may hold the pipe open after the step has ended
    if child.returncode != 0:
        _fail(label, child.returncode, lines)
    say(f"{label}: done in {time.monotonic() - start_s:.0f} s")


def _collect(pipe: IO[bytes], lines: list[str]) -> None:
    for raw in pipe:
        lines.append(raw.decode("utf-8", "replace").rstrip())


def _watch(child: subprocess.Popen[bytes], label: str, lines: list[str]) -> None:
    """Wait for a child; on a terminal, keep one line up to date with the time and what it last said."""
    on_terminal = sys.stderr.isatty()
    if not on_terminal:
        say(f"{label} ...")
    start_s = time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.2)
            break
        if on_terminal:
            last = lines[-1].strip()[:60] if lines else ""
            sys.stderr.write(f"\r\033[K{label}: {time.monotonic() - start_s:3.0f} s  {last}")
            sys.stderr.flush()
    if on_terminal:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a child of ours with what it has started, and wait until it has ended."""
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with contextlib.suppress(ProcessLookupError):
            if os.name == "posix":
                os.killpg(child.pid, number)
            else:
                child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
            return


def _fail(label: str, code: int, lines: list[str]) -> NoReturn:
    """Raise with the last lines of a step, then what they mean where that is known."""
    shown = [line for line in lines if line.strip()][-_LAST_LINES:]
    text = "\n".join([f"{label}: failed. Its last lines:", *(f"    {line}" for line in shown), ""])
    everything = "\n".join(lines)
    if "No space left on device" in everything or "Disk quota exceeded" in everything:
        raise SetupError(text + disk_full())
    if code < 0:
        text += f"It was ended by signal {-code}; 9 is often the system running out of memory. "
    if "No matching distribution" in everything:
        text += (
            f"pip found no such package for Python {sys.version_info.major}.{sys.version_info.minor}: is the "
            "network up, and does the index in your pip configuration (`pip config list`) have it? "
        )
    raise SetupError(f"{text}The environment is unfinished and will not be used. {AGAIN}")


def disk_full() -> str:
    folders = {str(Path(__file__).parent.parent), tempfile.gettempdir()}
    free = ", ".join(
        f"{shutil.disk_usage(folder).free / 1e9:.1f} GB in {folder}" for folder in sorted(folders)
    )
    return (
        f"The disk is full, or your quota of it: free now {free}. The course takes 2 GB with torch for CPU "
        "and 8 GB with CUDA, and pip needs room for temporary files (TMPDIR names their folder). "
        "Free some space, then run the same command again."
    )
