"""Client of the supervisor: asks, is answered, and hears what it says by itself. It closes with its owner."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

from course_lib.cluster.base import temp_dirs
from course_lib.nodes.supervisor.capabilities import environment_of_ours

__all__ = ["SupervisorClient", "SupervisorGone"]

_ANSWER_S = 60.0


class SupervisorGone(RuntimeError):
    """The supervisor was killed, or never began."""


class SupervisorClient:
    """Starts the supervisor, and holds the folder of its nodes. ``close`` ends all that runs; safe to repeat."""

    def __init__(self) -> None:
        self.folder = temp_dirs.make()
        ours, its = socket.socketpair()
        self._line, self._buffer = ours, b""
        self._received: list[dict[str, Any]] = []
        self._numbers = itertools.count()
        with its, open(self.folder / "supervisor.log", "wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "course_lib.nodes.supervisor.supervisor",
                    str(its.fileno()),
                    str(self.folder),
                ],
                env=environment_of_ours(),
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Jupyter's interrupt is for the notebook
            )
        self._finalizer = weakref.finalize(self, _close, ours, self._process, self.folder, os.getpid())

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """The answer; ``refused`` in it says what could not be done."""
        number = next(self._numbers)
        try:
            self._line.sendall(json.dumps({"do": do, "number_of_question": number, **what}).encode() + b"\n")
            until = time.monotonic() + _ANSWER_S
            while time.monotonic() < until:
                self._read(until - time.monotonic())
                answers = [one for one in self._received if one["said"] == "answer"]
                self._received = [one for one in self._received if one["said"] != "answer"]
                for answer in answers:  # to an earlier question, whose asker was interrupted: of no use any more
                    if answer["to"] == number:
                        return answer
        except OSError:
            raise SupervisorGone(self._exit_report()) from None
        raise SupervisorGone(f"the supervisor of the nodes gave no answer to '{do}' in {_ANSWER_S:.0f} s")

    def news(self, timeout_s: float) -> list[dict[str, Any]]:
        """What the supervisor has said by itself, waiting for it no longer than ``timeout_s``."""
        if not self._received:
            self._read(timeout_s)
        received, self._received = self._received, []
        return [one for one in received if one["said"] != "answer"]

    def close(self) -> None:
        """End all that runs, and remove the folder."""
        self._finalizer()

    @property
    def is_closed(self) -> bool:
        return not self._finalizer.alive

    def _read(self, timeout_s: float) -> None:
        if not select.select([self._line], [], [], max(0.0, timeout_s))[0]:
            return
        piece = self._line.recv(1 << 16)
        if not piece:
            raise SupervisorGone(self._exit_report())
        self._buffer += piece
        *lines, self._buffer = self._buffer.split(b"\n")
        self._received += [json.loads(line) for line in lines]

    def _exit_report(self) -> str:
        words = ""
        with contextlib.suppress(OSError):
            words = (self.folder / "supervisor.log").read_text().strip()
        return f"the process that keeps the nodes has ended; make new Nodes.{chr(10) if words else ''}{words}"


def _close(line: socket.socket, process: subprocess.Popen[bytes], folder: Path, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner ends
        return
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)  # the supervisor hears that, also where a fork holds the line too
    line.close()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    temp_dirs.remove(folder)
