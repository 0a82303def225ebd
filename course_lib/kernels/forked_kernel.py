"""A kernel that was forked, with what Jupyter asks of a process that it has started itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from course_lib.kernels.server import address_in

__all__ = ["ForkedKernel"]

_BEGIN_LIMIT_S = 600.0  # of the imports, where many others run
_LONGEST_NUMBER = 32  # bytes


class ForkedKernel:
    """A fork of the server whose socket lies in ``folder``, with the methods of a ``subprocess.Popen``.

    It runs IPython's kernel with these arguments, environment and working folder, and ``fds`` as its standard files.

    Raises:
        OSError: There is no fork server any more, or it ended before it answered.
    """

    stdin = stdout = stderr = None

    def __init__(
        self, folder: Path, arguments: Sequence[str], *, env: Mapping[str, str], cwd: str, fds: Sequence[int]
    ) -> None:
        asked = json.dumps({"arguments": list(arguments), "env": dict(env), "cwd": cwd})
        self.returncode: int | None = None
        self._said = b""  # by the server, and not read yet
        self._connection = socket.socket(socket.AF_UNIX)
        try:
            self._connection.settimeout(_BEGIN_LIMIT_S)
            with address_in(folder) as address:
                self._connection.connect(address)
            socket.send_fds(self._connection, [b"."], fds)
            self._connection.sendall(asked.encode() + b"\n")
            pid = self._number()
            if pid is None:
                raise ConnectionResetError("the kernels' fork server has ended")
            self.pid = pid
        except OSError:
            self._connection.close()
            raise
        self._connection.setblocking(False)

    def poll(self) -> int | None:
        """The exit code; None while the kernel runs."""
        if self.returncode is None:
            with contextlib.suppress(BlockingIOError):
                code = self._number()
                self.returncode = -signal.SIGKILL if code is None else code
                self._connection.close()
        return self.returncode

    def wait(self) -> int:
        """The exit code, once there is one."""
        if self.returncode is None:
            self._connection.settimeout(None)
            self.poll()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended this moment
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _number(self) -> int | None:
        """The next line that the server says; None where it has gone."""
        while b"\n" not in self._said:
            part = self._connection.recv(_LONGEST_NUMBER)
            if not part:
                return None
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return int(line)
