"""Kernels on sockets in a private folder, and ranks that end with a kernel which nobody uses."""

from __future__ import annotations

import asyncio
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from waiting import all_ended

from course_lib.base.front_end import IN_COURSE_LAB
from course_lib.cluster.base import temp_dirs
from course_lib.lab import kernels

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no Unix sockets")
KIND = "course_lib.lab.kernels.CourseKernelManager"
LIMIT_S = 200


@pytest.fixture
def own_folder() -> Iterator[None]:
    kernels.private_folder.cache_clear()
    yield
    if folder := kernels.private_folder():
        temp_dirs.remove(folder)
    kernels.private_folder.cache_clear()


def test_the_folder_is_private_and_every_path_in_it_is_short_enough(own_folder: None) -> None:
    folder = kernels.private_folder()
    assert folder is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    first, second = kernels.CourseKernelManager(), kernels.CourseKernelManager()
    assert (first.transport, Path(first.ip).parent) == ("ipc", folder)
    assert first.ip != second.ip
    with socket.socket(socket.AF_UNIX) as longest:
        longest.bind(str(folder / "kernel-99999-5"))


def test_who_asks_for_tcp_gets_it(own_folder: None) -> None:
    manager = kernels.CourseKernelManager(transport="tcp")
    assert (manager.transport, manager.ip) == ("tcp", "127.0.0.1")


def test_a_kernel_is_told_that_its_page_knows_the_texts_of_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    async def start(_: object, **options: dict[str, str]) -> None:
        told.append(options["env"])

    monkeypatch.setattr(kernels.ServerKernelManager, "start_kernel", start)
    for given in ({}, {"env": {"JPY_SESSION_NAME": "/lessons/00.ipynb"}}):
        asyncio.run(kernels.CourseKernelManager(transport="tcp").start_kernel(**given))
    assert [env[IN_COURSE_LAB] for env in told] == ["1", "1"]
    assert "PATH" in told[0]
    assert told[1]["JPY_SESSION_NAME"] == "/lessons/00.ipynb"


@pytest.mark.parametrize("length", [83, 150])  # too long for the last sockets of a server, and for any
def test_a_long_temporary_folder_is_left_for_a_short_one(
    own_folder: None, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        long = Path(name, "x" * (length - len(name) - 1))
        long.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(long))
        folder = kernels.private_folder()
        assert folder is not None
        assert folder.parent == Path("/tmp")
        assert list(long.iterdir()) == []
        temp_dirs.remove(folder)


def test_where_no_socket_can_lie_kernels_speak_tcp(own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    make = temp_dirs.make

    def noted(parent: Path | None = None) -> Path:
        made.append(make(parent))
        return made[-1]

    monkeypatch.setattr(temp_dirs, "make", noted)
    monkeypatch.setattr(kernels, "_takes_sockets", lambda folder: False)
    assert kernels.private_folder() is None
    assert kernels.CourseKernelManager().transport == "tcp"
    assert made
    assert not any(folder.exists() for folder in made)


def test_a_disk_without_sockets_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError(95, "Operation not supported")

    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        assert kernels._takes_sockets(Path(name))
        assert list(Path(name).iterdir()) == []
        monkeypatch.setattr(socket, "socket", Refused)
        assert not kernels._takes_sockets(Path(name))


def test_the_folder_goes_with_the_server() -> None:
    code = "from course_lib.lab.kernels import private_folder; print(private_folder())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.startswith(tempfile.gettempdir())
    assert not Path(done.stdout.strip()).exists()


# --- A real kernel --------------------------------------------------------------------------------------------------


async def run(client, code: str) -> str:
    said: list[str] = []

    def hear(message: dict) -> None:
        said.append(message["content"].get("text", ""))

    answer = await client._async_execute_interactive(code, timeout=LIMIT_S, output_hook=hear)
    assert answer["content"]["status"] == "ok", answer["content"]
    return "".join(said)


async def a_kernels_life(tmp_path: Path) -> None:
    """Start, restart, two ranks, and then nobody comes: the culler ends it."""
    manager = AsyncMappingKernelManager(
        kernel_manager_class=KIND,
        connection_dir=str(tmp_path),
        root_dir=str(tmp_path),
        cull_idle_timeout=3,
        cull_interval=1,
        cull_connected=True,
    )
    number = await manager.start_kernel()
    kernel = manager.get_kernel(number)
    assert kernel.transport == "ipc"
    sockets = Path(kernel.ip).parent
    client = kernel.client()
    client.start_channels()
    await client._async_wait_for_ready(timeout=LIMIT_S)
    assert client.transport == "ipc"
    await manager.restart_kernel(number)
    await client._async_wait_for_ready(timeout=LIMIT_S)
    pid = int(await run(client, "import os; print(os.getpid())"))
    ranks = "from course_lib import Cluster; c = Cluster(2); print(*c.run(lambda me: os.getpid()))"
    pids = [int(word) for word in (await run(client, ranks)).split()]
    client.stop_channels()
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert set(pids) <= {process.pid for process in family}
    for _ in range(5 * LIMIT_S):
        if number not in manager:
            break
        await asyncio.sleep(0.2)
    assert number not in manager
    assert all_ended(process.pid for process in family)
    assert list(sockets.glob("kernel-*")) == []
    assert list(tmp_path.glob("kernel-*")) == []


@pytest.mark.long
def test_an_idle_kernel_ends_with_its_ranks(own_folder: None, tmp_path: Path) -> None:
    asyncio.run(a_kernels_life(tmp_path))
