"""Starting and ending the processes of ranks, each by its handle.

Ranks are forked from a *fork server*: a small process that has imported torch once and does nothing else. It is
quick (a rank starts in tens of milliseconds) and safe: forking the notebook's own process hangs as soon as it
has run one multi-threaded operation. The standard library's server does all of this; here it is told what to
import, and kept from importing the learner's script a second time.
"""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import types
import weakref
from collections.abc import Iterator
from multiprocessing import util
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from course_lib.base.paths import library_folder
from course_lib.cluster.base import temp_dirs
from course_lib.cluster.base.os_errors import explained
from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.process.caller_context import Context
from course_lib.cluster.process.defer_interrupt import deferred_interrupts
from course_lib.cluster.process.descendants import end_below
from course_lib.cluster.process.output_capture import read_text

__all__ = ["PRELOADED", "RankProcess", "end_server", "start", "warm"]

PRELOADED = ["course_lib.cluster.process.preload"]  # what the fork server imports; changed before it starts, or never

_starting = threading.Lock()
_LONGEST_TMPDIR = 65  # bytes, so that "/pymp-xxxxxxxx/listener-xxxxxxxx" behind it stays below 104


def warm() -> None:
    """Start the fork server without waiting for it, so that the first cluster finds it ready. Safe to repeat."""
    if _method() == "forkserver":
        from multiprocessing import forkserver

        _context()
        with explained(), deferred_interrupts(), _starting, _plain_start(), _born_deaf():
            forkserver.ensure_running()
            _hold_its_folder()


class RankProcess:
    """The parent's handle on one rank: its process, the line for work, and the line for questions."""

    def __init__(
        self, process: multiprocessing.Process, work: Connection, watch: Connection, config: RankConfig
    ) -> None:
        self.process, self.work, self.watch = process, work, watch
        self._rank, self._folder = config.rank, config.folder
        self.lost_with = ""  # the node that has gone with it; this machine has not
        self.home = None  # nor another machine that would know of its threads

    @property
    def sentinel(self) -> int:
        return self.process.sentinel

    @property
    def pids(self) -> list[int]:
        """The number of its process on this machine, while it lives: whose time the supervisor may read."""
        return [self.process.pid] if self.is_alive and self.process.pid is not None else []

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped its process, which then cannot answer."""
        stopped = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        with contextlib.suppress(psutil.Error):
            return any(psutil.Process(pid).status() in stopped for pid in self.pids)
        return False

    def exit_code(self) -> int | None:
        """How a process that is gone has ended: below zero by that signal."""
        self.process.join(1.0)
        return self.process.exitcode

    def printed(self) -> str:
        """What it has printed since its last answer, also where it will never give one."""
        return read_text(self._folder / f"text-{self._rank}")

    def stacks(self) -> str:
        """Where its threads stand, by ``faulthandler`` on a signal, which answers where no thread can."""
        self._signal(signal.SIGUSR1)
        time.sleep(0.05)
        path = self._folder / f"stacks-{self._rank}"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def is_alive(self) -> bool:
        """Safe to ask at any time, also of a process whose handle was closed."""
        try:
            return self.process.is_alive()
        except ValueError:
            return False

    def interrupt(self) -> None:
        """Ask a function that is busy in Python to end."""
        self._signal(signal.SIGUSR2)

    def kill(self) -> None:
        """End the process and the children it has started, at once."""
        if self.is_alive and self.process.pid is not None:
            end_below(self.process.pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()

    def end_children(self) -> None:
        """End what a process that has this moment died by itself had started: its group still carries its number."""
        pid = self.process.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        _end_orphans()

    def wait(self, timeout_s: float) -> bool:
        """True when the process has ended; then its handle and its lines are closed. Safe to repeat."""
        with contextlib.suppress(ValueError):  # closed by an earlier call, which was interrupted
            self.process.join(timeout_s)
        if self.is_alive:
            return False
        self.work.close()
        self.watch.close()
        self.process.close()
        return True

    def _signal(self, number: int) -> None:
        if self.is_alive and self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


def end_server() -> None:
    """End the fork server at once, and with it all its ranks; its folder goes too. Nothing can be started after it."""
    from multiprocessing import forkserver

    server: Any = getattr(forkserver, "_forkserver", None)
    address, pid = getattr(server, "_forkserver_address", None), getattr(server, "_forkserver_pid", None)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if isinstance(address, str) and not address.startswith("\0"):
            temp_dirs.remove(Path(address).parent)


def start(config: RankConfig, context: Context) -> RankProcess:
    """Start one rank; it reports on its work line when it has met the others."""
    from course_lib.cluster.process.rank_process import serve

    work, its_work = multiprocessing.Pipe()
    watch, its_watch = multiprocessing.Pipe()
    process = _context().Process(
        target=serve, args=(config, context, its_work, its_watch), name=f"rank-{config.rank}", daemon=False
    )
    with _starting, _without_main_script(), _plain_start(), _born_deaf():
        try:
            process.start()
        except EOFError:  # the fork server has ended instead
            raise OSError(errno.EAGAIN, "The system refused a process to the server that starts ranks") from None
        _hold_its_folder()
    its_work.close()
    its_watch.close()
    started = RankProcess(process, work, watch, config)
    _started.add(started)
    return started


_started: weakref.WeakSet[RankProcess] = weakref.WeakSet()


def _end_orphans() -> None:
    """End what ranks that died had started in sessions of their own: it has come to the fork server."""
    from multiprocessing import forkserver

    server = getattr(getattr(forkserver, "_forkserver", None), "_forkserver_pid", None)
    with _starting:  # nobody begins a rank that is not known yet
        ranks = {rank.process.pid for rank in list(_started) if rank.is_alive}
        if server is not None and sys.platform == "linux":
            end_below(server, spare=ranks)


def _method() -> str:
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def _context() -> Any:
    context = multiprocessing.get_context(_method())
    if _method() == "forkserver":
        context.set_forkserver_preload(PRELOADED)
    return context


@contextlib.contextmanager
def _without_main_script() -> Iterator[None]:
    """Hide the running script from multiprocessing, which would import it in every rank.

    Functions of the script travel by value, so nothing needs that import, and a script without an
    ``if __name__ == "__main__"`` guard would start clusters without end.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextlib.contextmanager
def _plain_start() -> Iterator[None]:
    """Let new processes begin as Python does anywhere else, and not in the notebook's folder.

    A ``queue.py`` or ``random.py`` there would stand in for the library's own, and end the fork server at once.
    A rank takes over the notebook's import path when it has begun.
    """
    path, safe = sys.path[:], os.environ.get("PYTHONSAFEPATH")
    here = {"", os.path.abspath(os.curdir)} if os.path.exists(os.curdir) else {""}
    sys.path[:] = [path for path in path if path not in here] + [str(library_folder())]
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        _replace_a_server_without_socket()
        _make_room_for_sockets()
        yield
    finally:
        sys.path[:] = path
        del os.environ["PYTHONSAFEPATH"]
        if safe is not None:
            os.environ["PYTHONSAFEPATH"] = safe


@contextlib.contextmanager
def _born_deaf() -> Iterator[None]:
    """Have a fork server that starts here begin with interrupts held back; ``preload`` takes over from there.

    Jupyter's interrupt is for the notebook, and reaches every process of its group, also one that has just begun.
    """
    if _method() != "forkserver":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it comes first, and its start would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hold_its_folder() -> None:
    """Lock the folder of the fork server's socket: where this process is killed, the next one removes it."""
    from multiprocessing import forkserver

    server: Any = getattr(forkserver, "_forkserver", None)
    address, pid = getattr(server, "_forkserver_address", None), getattr(server, "_forkserver_pid", None)
    if isinstance(address, str) and not address.startswith("\0") and pid is not None:
        temp_dirs.hold(Path(address).parent, pid)


def _replace_a_server_without_socket() -> None:
    """Stop a fork server that nobody can reach: a cleaner of temporary folders has taken its socket away."""
    from multiprocessing import forkserver

    server: Any = getattr(forkserver, "_forkserver", None)
    address = getattr(server, "_forkserver_address", None)
    if isinstance(address, str) and not address.startswith("\0") and not os.path.exists(address):
        with contextlib.suppress(FileNotFoundError):  # it would remove the socket
            server._stop()
        server._forkserver_address = None
        temp_dirs.remove(Path(address).parent)
        multiprocessing.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]


def _make_room_for_sockets() -> None:
    """The fork server's socket lies in the temporary folder, and its whole path may have 104 to 108 bytes."""
    before = tempfile.gettempdir()
    if os.name == "posix" and len(os.fsencode(before)) > _LONGEST_TMPDIR:
        tempfile.tempdir = "/tmp"
        try:
            util.get_temp_dir()  # made now, kept by multiprocessing, removed at the end
        finally:
            tempfile.tempdir = before
