"""Runs one step of the set-up, with its output kept back, and says what its failure means."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, NoReturn

from course_lib.environment.failures import AGAIN, StepFailed, meaning_of

__all__ = ["Steps", "run_step", "say"]

_LAST_LINES = 12


def say(text: str) -> None:
    """Tell the learner something: on stderr, since stdout belongs to the verb that runs afterwards."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Steps:
    """Where the steps of one set-up run, and the lock that each of them holds while it runs."""

    cwd: str
    lock: IO[str] | None = None

    def run(self, command: Sequence[str], label: str, *, env: Mapping[str, str] | None = None) -> None:
        run_step(command, label, cwd=self.cwd, env=env, lock=self.lock)


def run_step(
    command: Sequence[str],
    label: str,
    *,
    cwd: str,
    env: Mapping[str, str] | None = None,
    lock: IO[str] | None = None,
) -> None:
    """Run one step with its output kept back: a line with its time, and upon failure its last lines.

    Raises StepFailed where it ends with an error. The step inherits `lock`: it is held until the step is over,
    even where this process is killed before.
    """
    start_s = time.monotonic()
    # A group of its own on POSIX: pip starts builds, and stopping the step must stop those too.
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=step_environment() if env is None else dict(env),
        cwd=cwd,
        process_group=0 if os.name == "posix" else None,
        pass_fds=[lock.fileno()] if lock is not None and os.name == "posix" else (),
    )
    lines: list[str] = []
    assert child.stdout is not None
    reader = threading.Thread(target=_collect, args=(child.stdout, lines), daemon=True)
    reader.start()
    try:
        _note(child.pid, lock)
        _watch(child, label, lines)
    except BaseException:
        _stop(child)
        raise
    reader.join(5)  # a grandchild may hold the pipe open after the step has ended
    if child.returncode != 0:
        _fail(label, child.returncode, lines)
    say(f"{label}: done in {time.monotonic() - start_s:.0f} s")


def step_environment() -> dict[str, str]:
    """The environment of a step of pip's."""
    # `user = true` is common in pip's settings on shared machines, and cannot work inside an environment.
    return {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}


def _note(pid: int, lock: IO[str] | None) -> None:
    """Write into the lock file who is at work, for the one who waits."""
    if lock is not None:
        with contextlib.suppress(OSError):  # it is only news
            lock.truncate(0)
            lock.write(str(pid))
            lock.flush()


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
    meaning = meaning_of(code, lines)
    text = "\n".join([f"{label}: failed. Its last lines:", *(f"    {line}" for line in shown), ""])
    ending = f"The environment is unfinished and will not be used. {AGAIN}"
    reason = meaning.text or (shown[-1].strip() if shown else f"exit code {code}")
    raise StepFailed(
        text + (f"{meaning.text}\n{ending}" if meaning.text else ending),
        reason=reason,
        is_final=meaning.is_final,
    )
