"""A process that has imported what kernels need, and is forked for each of them. ``server.py`` runs it as a script.

A kernel of a lesson and the fork server of its ranks import torch and much beside it before they do anything: seconds
of computing, and hundreds of megabytes. Here it is done once. A fork of this process becomes the kernel; a fork of that
one, made before anything else, waits to become the fork server. The course's own modules are there for the fork server
alone: each kernel forgets them, and imports them itself, as one does that starts by itself. Only the standard library
is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

_MOST_FDS = 16
_OWNER = 0  # standard input: a byte asks for no further kernel; when it is closed, the owner is gone
_OWN_FILES = (0, 1, 2)

Request = tuple[dict[str, Any], list[int]]  # what was asked for, and the open files that came with it


def main(listener: socket.socket, folder: str, idle_s: float, modules: list[str]) -> None:
    """Import, then fork for each request, until the owner is gone. Each fork leaves the loop with its request.

    Without a kernel for ``idle_s`` seconds it ends; not where that is 0.
    """
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as a kernel does
    gc.disable()
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.enable()
    gc.freeze()  # what is imported stays shared between all forks
    request = None
    if not has_touched_a_gpu():  # such a process cannot be forked
        tell_what_is_loaded(folder)
        request = Kernels(listener, idle_s).serve()
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)  # where the owner was killed, nobody else does
    else:
        become_kernel(*request)


def has_touched_a_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def tell_what_is_loaded(folder: str) -> None:
    """Write which files the modules come from, and how old they are; it says as well that requests are answered."""
    loaded = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        with contextlib.suppress(OSError):  # a module that says of itself what is no file
            found = os.stat(path or "")
            loaded[path] = [found.st_mtime_ns, found.st_size]
    with open(f"{folder}/part", "w", encoding="utf-8") as file:
        json.dump(loaded, file)
    os.replace(file.name, f"{folder}/loaded.json")


def receive(line: socket.socket) -> Request | None:
    """A byte with open files, then a line of JSON; None from one who has ended without a request."""
    _, fds, *_ = socket.recv_fds(line, 1, _MOST_FDS)
    with line.makefile("r", encoding="utf-8") as file:
        text = file.readline()
    return (json.loads(text), list(fds)) if text.endswith("\n") else None


def send(line: socket.socket, asked: dict[str, Any], fds: list[int]) -> None:
    socket.send_fds(line, [b"."], fds)
    line.sendall(json.dumps(asked).encode() + b"\n")


class Kernels:
    """Those that live, each with the connection of the one who asked for it.

    It gets the process id, and in the end the exit code. When the one who asked is gone, the kernel is ended.
    """

    def __init__(self, listener: socket.socket, idle_s: float) -> None:
        self._listener, self._idle_s = listener, idle_s
        self._takes_more = True
        self._asked_by: dict[int, socket.socket] = {}  # by process id
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who then closes our input
        signal.set_wakeup_fd(self._wakes.fileno())
        for source in (self._listener, self._woken, _OWNER):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> Request | None:
        """In each fork: its request. In the server: None, once it is to end; all kernels have been ended then."""
        while self._takes_more or self._asked_by:
            events = self._selector.select(self._idle_s if self._idle_s and not self._asked_by else None)
            if not events:
                break
            for key, _ in events:
                if key.fileobj == _OWNER:
                    if os.read(_OWNER, 1):
                        self._take_no_more()
                        continue
                    for pid in self._asked_by:
                        end(pid)
                    return None
                if key.fileobj is self._woken:
                    self._woken.recv(4096)
                    self._collect()
                elif key.fileobj is self._listener:
                    request = self._begin(self._listener.accept()[0])
                    if request is not None:
                        return request
                else:
                    self._let_go(key.fileobj)
        return None

    def _take_no_more(self) -> None:
        if self._takes_more:
            self._takes_more = False
            self._selector.unregister(self._listener)
            self._listener.close()

    def _begin(self, connection: socket.socket) -> Request | None:
        """Fork for a request; it is returned in the fork alone."""
        with contextlib.suppress(OSError, ValueError):  # who asked has gone already
            request = receive(connection) if is_own_user(connection) else None
            if request is None:
                connection.close()
                return None
            pid = os.fork()
            if pid == 0:
                self._forget(connection)
                return request
            for fd in request[1]:
                os.close(fd)
            self._asked_by[pid] = connection
            self._selector.register(connection, selectors.EVENT_READ)
            connection.sendall(f"{pid}\n".encode())
        return None

    def _forget(self, connection: socket.socket) -> None:
        """In a fork: nothing of the server's stays open, and signals mean what they mean elsewhere."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for open_one in (self._listener, self._woken, self._wakes, connection, *self._asked_by.values()):
            open_one.close()

    def _collect(self) -> None:
        """Tell the exit codes of kernels that have ended."""
        for pid, connection in list(self._asked_by.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._asked_by[pid]
                with contextlib.suppress(KeyError):
                    self._selector.unregister(connection)
                with contextlib.suppress(OSError):
                    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
                connection.close()

    def _let_go(self, connection: Any) -> None:
        """End the kernel of one who has gone; those who live say nothing more."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(connection)
        for pid, asked_by in self._asked_by.items():
            if asked_by is connection:
                end(pid)


def is_own_user(connection: socket.socket) -> bool:
    """Whether the one who asks is the user of this process: a fork gives who asks for it all that this user may do."""
    asks = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", asks)[1] == os.getuid()


def end(pid: int) -> None:
    """End a kernel and all that it has started; one that has only begun leads no group yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


# --- A fork -----------------------------------------------------------------------------------------------------------


def become_kernel(asked: dict[str, Any], fds: list[int]) -> None:
    """Run the kernel of IPython to its end, with the environment, folder and files that were asked for."""
    os.setsid()
    take_places(_OWN_FILES, fds)
    become(asked)
    sys.argv.append(f"--IPKernelApp.parent_handle={os.getppid()}")  # else read from the environment, at the import
    draw_other_numbers()
    lend_a_fork_server()
    forget_the_course()
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


def become(asked: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv = asked["arguments"]


def take_places(places: tuple[int, ...], fds: list[int]) -> None:
    """Move open files to the given numbers, whatever stood there."""
    above = max(*places, *fds) + 1
    held = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for place, fd in zip(places, held, strict=True):
        os.dup2(fd, place)
        os.close(fd)


def lend_a_fork_server() -> None:
    """Fork now, while this process has one thread; the first start of multiprocessing's fork server takes that fork."""
    from multiprocessing import util

    mine, its = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        mine.close()
        become_fork_server(its)
    its.close()
    vars(util)["spawnv_passfds"] = spawn_or_lend(mine, pid, vars(util)["spawnv_passfds"])


def draw_other_numbers() -> None:
    """Two kernels do not draw the same random numbers; Python sees to its own."""
    if "numpy.random" in sys.modules:  # numpy itself imports it late, and each kernel for itself
        sys.modules["numpy.random"].seed()


def forget_the_course() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "course_lib"]:
        del sys.modules[name]


def spawn_or_lend(line: socket.socket, pid: int, spawn: Callable[..., int]) -> Callable[..., int]:
    """``spawn``, but the fork ``pid`` in its stead where a fork server is to be started for the first time."""

    def start(path: Any, arguments: list[str], fds: tuple[int, ...]) -> int:
        words = [os.fsdecode(word) for word in arguments]
        code, *behind = words[words.index("-c") + 1 :] if "-c" in words else [""]
        if "multiprocessing.forkserver" not in code or line.fileno() < 0:
            return spawn(path, arguments, fds)
        blocked = [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
        asked = {"code": code, "places": fds, "blocked": blocked, "arguments": ["-c", *behind]}
        with line:
            send(line, {**asked, "env": dict(os.environ), "cwd": os.getcwd()}, [*_OWN_FILES, *fds])
        return pid

    return start


def become_fork_server(line: socket.socket) -> NoReturn:
    """Wait until this kernel wants one, take its files, and run the code that a new Python would."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for a kernel that has not asked yet
    request = receive(line)
    line.close()
    if request is None:
        os._exit(0)  # the kernel has ended, and never wanted one
    asked, fds = request
    take_places((*_OWN_FILES, *asked["places"]), fds)
    become(asked)
    signal.pthread_sigmask(signal.SIG_SETMASK, asked["blocked"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(asked["code"], vars(sys.modules["__main__"]))
    raise SystemExit


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # this script's folder, which no kernel has
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], float(sys.argv[3]), sys.argv[4:])
