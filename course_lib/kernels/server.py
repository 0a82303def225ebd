"""The process that kernels are forked from, seen from the one who owns it: begun, ready, behind the disk, ended.

Its socket lies in a folder of this user alone, and it answers no other user. It ends with its owner, also where that is
killed, and takes its kernels with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from course_lib.kernels import modules

__all__ = ["KernelForkServer", "address_in"]

_END_LIMIT_S = 10.0
_QUEUE = 16  # who asks early waits for the imports
# Jupyter gives each kernel some of its own, which nothing reads while it is imported.
_OF_ONE_KERNEL = ("JPY_", "JUPYTER_")


class KernelForkServer:
    """Runs ``fork_server.py``, with a socket in ``folder``, or in a new one. ``close`` ends it, and all its kernels.

    It ends by itself ``idle_s`` seconds after its last kernel has ended; not where that is 0.
    """

    def __init__(
        self,
        names: Sequence[str] = modules.NAMES,
        *,
        folder: Path | None = None,
        idle_s: float = 0.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="course-kernels-")) if folder is None else folder
        env = os.environ if env is None else env
        self._environment = _shared_part(env)
        script = Path(__file__).with_name("fork_server.py")
        with socket.socket(socket.AF_UNIX) as listener, address_in(self.folder) as address:
            listener.bind(address)
            listener.listen(_QUEUE)
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(listener.fileno()), str(self.folder), str(idle_s), *names],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                env=dict(env),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether it has imported all, and answers at once."""
        return self.is_alive and (self.folder / "loaded.json").exists()

    @cached_property
    def _loaded(self) -> dict[str, list[int]]:
        """Each file that its modules come from, with the time of its last change (ns) and its size (bytes)."""
        loaded: dict[str, list[int]] = json.loads((self.folder / "loaded.json").read_text(encoding="utf-8"))
        return loaded

    def changed_files(self) -> list[str]:
        """Files that differ from what it has imported; a kernel that it forks would run the old ones."""
        return [path for path, was in self._loaded.items() if _on_disk(path) != was]

    def other_variables(self, env: Mapping[str, str]) -> list[str]:
        """Which variables of a kernel's environment it has not begun with: libraries read some at their import."""
        asked = _shared_part(env)
        return sorted({name for name, _ in asked.items() ^ self._environment.items()})

    def take_no_more(self) -> None:
        """Have it fork no further kernel, and end with the last that it has. Safe to repeat."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended already
            self._process.stdin.write(b".")
            self._process.stdin.flush()

    def close(self) -> None:
        """Safe to repeat."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def address_in(folder: Path) -> Iterator[str]:
    """The socket's address. It is short however long the folder's path may be, for a socket bears 107 bytes."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{fd}/socket"
    finally:
        os.close(fd)


def _shared_part(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(_OF_ONE_KERNEL)}


def _on_disk(path: str) -> list[int]:
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size]
