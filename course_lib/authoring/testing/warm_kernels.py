"""A plugin of pytest: kernels of notebooks begin as forks of one process that has imported what all of them need.

It is nbval's own run otherwise: the same kernel, in a process of its own with its own folder and environment, asked
over the same sockets. Where there is no such process (on another system than Linux, or when it has ended), and for
notebooks that ``--cold-start`` names, a kernel starts as a learner's does.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast

import pytest
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from course_lib.lessons.kernel_sockets import take_no_ports

__all__ = ["MODULES", "KernelForkServer", "WarmKernel", "WarmProvisioner"]

# What kernels and the fork servers of their ranks import (see cluster/process/preload.py). The course's own are for the
# fork servers, and come before IPython: to be imported where that is changes the notebook.
MODULES = (
    "course_lib.cluster.process.rank_process",
    "course_lib.cluster.links.emulation",
    "course_lib.meter.communication.recorder",
    "course_lib.learn.judging.judge",
    "course_lib.learn.checks.preload",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "numpy",
    "sklearn.datasets",
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.pipelining",
    "torch.distributed.checkpoint",
    "torch.distributed.checkpoint._fsspec_filesystem",
    "torch.utils.data",
    "cloudpickle",
)
_PROVISIONER = "course-warm"
_END_LIMIT_S = 10.0
_BEGIN_LIMIT_S = 600.0  # of the imports, where many others run


# --- The process that is forked ---------------------------------------------------------------------------------------


class KernelForkServer:
    """Runs ``kernel_fork_server.py``, with a socket in a private folder. ``close`` ends it, and all its kernels."""

    def __init__(self, modules: Sequence[str] = MODULES) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="course-kernels-"))
        script = Path(__file__).with_name("kernel_fork_server.py")
        with socket.socket(socket.AF_UNIX) as listener, _address_in(self.folder) as address:
            listener.bind(address)
            listener.listen(16)  # who asks early waits for the imports
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(listener.fileno()), str(self.folder), *modules],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Safe to repeat."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def _address_in(folder: Path) -> Iterator[str]:
    """The socket's address. It is short however long the folder's path may be, for a socket bears 107 bytes."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{fd}/socket"
    finally:
        os.close(fd)


class WarmKernel:
    """A forked kernel, with what Jupyter asks of a ``subprocess.Popen``.

    Raises:
        OSError: There is no fork server any more, or it ended before it answered.
    """

    stdin = stdout = stderr = None

    def __init__(
        self, folder: Path, arguments: Sequence[str], *, env: Mapping[str, str], cwd: str, fds: Sequence[int]
    ) -> None:
        asked = json.dumps({"arguments": list(arguments), "env": dict(env), "cwd": cwd})
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        try:
            self._connection.settimeout(_BEGIN_LIMIT_S)
            with _address_in(folder) as address:
                self._connection.connect(address)
            socket.send_fds(self._connection, [b"."], fds)
            self._connection.sendall(asked.encode() + b"\n")
            answer = self._connection.recv(64)
            if not answer:
                raise ConnectionResetError("the kernels' fork server has ended")
            self.pid = int(answer)
        except OSError:
            self._connection.close()
            raise
        self._connection.setblocking(False)

    def poll(self) -> int | None:
        """The exit code; None while the kernel runs."""
        if self.returncode is None:
            with contextlib.suppress(BlockingIOError):
                answer = self._connection.recv(64)
                self.returncode = int(answer) if answer else -signal.SIGKILL
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
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


# --- For Jupyter ------------------------------------------------------------------------------------------------------


class WarmProvisioner(LocalProvisioner):
    """Starts kernels of this interpreter by a fork, and any other as Jupyter does."""

    folder: Path | None = None  # of the fork server to ask; for all kernels of this process
    is_cold = False  # whether the next kernel is to start as a learner's does

    @classmethod
    def install(cls, folder: Path) -> None:
        """Have Jupyter start kernels here by asking the fork server whose socket lies in ``folder``."""
        cls.folder = folder
        factory = KernelProvisionerFactory.instance()
        entry = EntryPoint(_PROVISIONER, f"{__name__}:{cls.__name__}", factory.GROUP_NAME)
        factory.provisioners[_PROVISIONER] = entry
        factory.default_provisioner_name = _PROVISIONER

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Have the kernel listen at files beside the fork server's socket, not at ports.

        A port is chosen while it is free, and taken a second later: by then it may be that of a rank of another kernel.
        """
        manager = self.parent
        if manager is not None and self.folder is not None and self.folder.is_dir():
            take_no_ports(manager, self.folder / f"kernel-{self.kernel_id}")
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        is_ours = cmd[:3] == [sys.executable, "-m", "ipykernel_launcher"]
        if is_ours and self.folder is not None and not self.is_cold:
            with contextlib.suppress(OSError), open(os.devnull, "rb") as nothing:
                fds = [nothing.fileno(), _number(kwargs.get("stdout"), 1), _number(kwargs.get("stderr"), 2)]
                cwd, env = str(kwargs.get("cwd") or Path.cwd()), kwargs.get("env") or os.environ
                kernel = WarmKernel(self.folder, cmd[2:], env=env, cwd=cwd, fds=fds)
                self.process, self.pid, self.pgid = cast(Any, kernel), kernel.pid, kernel.pid
                self.cwd = cwd
                return self.connection_info
        return await super().launch_kernel(cmd, **kwargs)


def _number(file: Any, otherwise: int) -> int:
    """The number of an open file; ``otherwise`` for None, as for a ``subprocess.Popen``."""
    return otherwise if file is None else file if isinstance(file, int) else file.fileno()


# --- For pytest -------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cold-start",
        action="append",
        default=[],
        metavar="NOTEBOOK",
        help="its kernel imports everything itself",
    )
    parser.addoption(
        "--warm-modules",
        type=lambda text: tuple(text.split(",")),
        default=MODULES,
        metavar="NAMES",
        help="what the others have imported when they begin, with commas between",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin the server in the process that hands out the tests; its workers, or it itself, ask that for kernels."""
    if sys.platform != "linux":
        return
    workerinput = getattr(config, "workerinput", None)
    if workerinput is None:
        fork_server = KernelForkServer(config.getoption("--warm-modules"))
        config.add_cleanup(fork_server.close)
        WarmProvisioner.install(fork_server.folder)
    else:
        WarmProvisioner.install(Path(workerinput["course_kernels"]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where the fork server listens."""
    node.workerinput["course_kernels"] = str(WarmProvisioner.folder)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    WarmProvisioner.is_cold = item.path.name in item.config.getoption("--cold-start")
