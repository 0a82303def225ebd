"""Kernels of a lab begin as forks of one process, while it is as the disk is, and for this user alone."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner
from waiting import all_ended, wait_until

from course_lib.base.front_end import IN_COURSE_LAB
from course_lib.kernels.forked_kernel import ForkedKernel
from course_lib.kernels.server import KernelForkServer, address_in
from course_lib.lab import forks as lab_forks
from course_lib.lab import hub
from course_lib.lab.forks import LabForks, LabProvisioner

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each kernel starts by itself"),
    pytest.mark.xdist_group("lab_forks"),
]
ENV = {IN_COURSE_LAB: "1"}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module that the server imports, in place of torch and the course."""
    (tmp_path / "imported_once.py").write_text("VALUE = 1\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def forks(library: Path, said: list[str]) -> Iterator[LabForks]:
    forks = LabForks(say=said.append, names=("imported_once",))
    yield forks
    forks.close()


def asked(forks: LabForks, **env: str) -> Path | None:
    return asyncio.run(forks.folder_for({**os.environ, **ENV, **env}))


def forked(folder: Path | None) -> ForkedKernel:
    """A fork that never becomes a kernel, since it is stopped while it begins."""
    assert folder is not None
    arguments = ["kernel", "-f", str(folder / "connection.json")]
    with open(os.devnull, "r+b") as nothing:
        kernel = ForkedKernel(folder, arguments, env=os.environ, cwd=str(folder), fds=[nothing.fileno()] * 3)
    kernel.send_signal(signal.SIGSTOP)
    return kernel


def test_a_kernel_is_forked_once_all_is_imported(forks: LabForks, said: list[str]) -> None:
    folder = asked(forks)
    kernel = forked(folder)
    assert psutil.Process(kernel.pid).ppid() == forks._servers[-1].pid
    assert asked(forks) == folder, "one process for all kernels"
    assert said == []


def test_after_a_change_it_begins_anew_and_kernels_that_live_go_on(
    forks: LabForks, said: list[str], library: Path
) -> None:
    old_folder = asked(forks)
    kernel = forked(old_folder)
    (library / "imported_once.py").write_text("VALUE = 22\n")
    assert asked(forks) is None, "this one sees the change, since it imports by itself"
    assert len(said) == 1
    assert str(library / "imported_once.py") in said[0]
    new_folder = asked(forks)
    assert new_folder not in (None, old_folder)
    assert kernel.poll() is None
    old, new = forks._servers
    assert old.is_alive
    kernel.kill()
    wait_until(lambda: not old.is_alive, "the old process ends with its last kernel")
    assert new.is_alive


def test_a_module_that_is_gone_is_a_change(forks: LabForks, library: Path) -> None:
    assert asked(forks) is not None
    (library / "imported_once.py").unlink()
    assert asked(forks) is None


def test_another_environment_is_for_a_kernel_of_its_own(forks: LabForks, said: list[str]) -> None:
    assert asked(forks, OMP_NUM_THREADS="7") is None
    assert asked(forks, OMP_NUM_THREADS="7") is None
    (sentence,) = said
    assert "OMP_NUM_THREADS" in sentence
    assert asked(forks, JPY_SESSION_NAME="04a.ipynb", JUPYTER_TOKEN="x") is not None, "Jupyter's own are no difference"


def test_one_that_has_ended_is_replaced(forks: LabForks) -> None:
    assert asked(forks) is not None
    (server,) = forks._servers
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not server.is_alive, "it is gone")
    assert asked(forks) is not None
    assert not server.folder.exists()


def test_one_that_cannot_begin_is_not_begun_again_and_again(library: Path, said: list[str]) -> None:
    (library / "imported_once.py").write_text("import os; os._exit(3)\n")
    forks = LabForks(say=said.append, names=("imported_once",))
    assert asked(forks) is None
    assert asked(forks) is None
    assert len(forks._servers) == len(said) == 1
    forks.close()


def test_a_process_that_has_touched_a_gpu_is_not_forked(library: Path, said: list[str]) -> None:
    (library / "torch.py").write_text("class cuda:\n    is_initialized = staticmethod(lambda: True)\n")
    forks = LabForks(say=said.append, names=("torch",))
    assert asked(forks) is None
    assert "has ended" in said[0]
    forks.close()


def test_nobody_waits_for_imports_longer_than_for_a_kernel_of_its_own(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (library / "imported_once.py").write_text("import time; time.sleep(600)\n")
    monkeypatch.setattr(lab_forks, "_PATIENCE_S", 0.1)
    forks = LabForks(names=("imported_once",))
    assert asked(forks) is None
    assert forks._servers[-1].is_alive, "it goes on, for the next kernel"
    forks.close()


def test_without_kernels_it_ends_after_a_while_and_the_next_kernel_begins_another(library: Path) -> None:
    forks = LabForks(idle_s=0.2, names=())
    folder = asked(forks)
    (server,) = forks._servers
    wait_until(lambda: not server.is_alive, "it ends by itself")
    assert asked(forks) not in (None, folder)
    forks.close()


def test_it_stays_while_a_kernel_lives(library: Path) -> None:
    forks = LabForks(idle_s=1.0, names=())
    kernel = forked(asked(forks))
    (server,) = forks._servers
    with pytest.raises(subprocess.TimeoutExpired):
        server._process.wait(3.0)
    assert kernel.poll() is None
    forks.close()


def test_all_ends_with_the_lab(forks: LabForks) -> None:
    kernel = forked(asked(forks))
    (server,) = forks._servers
    forks.close()
    assert all_ended([kernel.pid, server.pid])
    assert not server.folder.exists()
    forks.close()


KILLED = """
import asyncio, os, sys, time
from course_lib.lab.forks import LabForks
forks = LabForks(names=())
folder = asyncio.run(forks.folder_for({**os.environ, "COURSE_LAB": "1"}))
print(forks._servers[-1].pid, folder, flush=True)
time.sleep(600)
"""


def test_it_does_not_outlive_a_lab_that_is_killed() -> None:
    lab = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert lab.stdout is not None
    pid, folder = lab.stdout.readline().split()
    lab.kill()
    lab.wait()
    assert all_ended([int(pid)])
    wait_until(lambda: not Path(folder).exists(), "its folder is removed")


ASKS = """
import os, socket, sys
line = socket.socket(socket.AF_UNIX)
os.setuid(int(sys.argv[2]))
line.connect(sys.argv[1])
line.settimeout(60)
try:
    socket.send_fds(line, [b"."], [0, 1, 2])
    line.sendall(b'{"arguments": [], "env": {}, "cwd": "/"}' + bytes([10]))
    print(repr(line.recv(64)))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user as well")
def test_no_other_user_is_answered(forks: LabForks) -> None:
    folder = asked(forks)
    assert folder is not None
    os.chmod(folder, 0o711)  # even where the folder is open
    os.chmod(folder / "socket", 0o777)
    with address_in(folder) as address:
        path = os.path.realpath(os.path.dirname(address)) + "/socket"
    answers = [
        subprocess.run([sys.executable, "-c", ASKS, path, user], capture_output=True, text=True, check=True).stdout
        for user in ("12345", "0")
    ]
    assert answers[0].strip() in ("b''", "BrokenPipeError", "ConnectionResetError")
    assert answers[1].startswith("b'"), "the same user is answered"
    assert len(answers[1]) > len("b''\n")


# --- Jupyter ----------------------------------------------------------------------------------------------------------


def test_who_has_named_another_way_to_start_kernels_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    factory = KernelProvisionerFactory()
    factory.default_provisioner_name = "of-somebody-else"
    LabProvisioner.install(factory)
    assert factory.default_provisioner_name == "of-somebody-else"
    factory.default_provisioner_name = "local-provisioner"
    LabProvisioner.install(factory)
    LabProvisioner.install(factory)
    assert factory.provisioners[factory.default_provisioner_name].load() is LabProvisioner
    assert issubclass(LabProvisioner, LocalProvisioner)


def test_a_server_of_a_hub_begins_it_too_and_it_ends_after_an_idle_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    ended: list[str] = []
    monkeypatch.delenv("COURSE_IDLE_MINUTES", raising=False)
    forks = SimpleNamespace(close=lambda: ended.append("closed"))
    monkeypatch.setattr(lab_forks, "begin_forks", lambda minutes: begun.append(minutes) or forks)
    monkeypatch.setattr(hub.atexit, "register", lambda close: close())
    app = SimpleNamespace(web_app=SimpleNamespace(settings={"static_custom_path": []}))
    hub._load_jupyter_server_extension(app)
    assert (begun, ended) == ([60], ["closed"])
    assert len(app.web_app.settings["static_custom_path"]) == 1


@pytest.mark.parametrize(("value", "wanted"), [("", True), ("off", False), (" OFF ", False), ("on", True)])
def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, value: str, wanted: bool) -> None:
    monkeypatch.setenv("COURSE_FORKS", value)
    monkeypatch.setattr(LabProvisioner, "forks", None)
    monkeypatch.setattr(LabForks, "begin", lambda self: None)
    assert lab_forks.are_wanted() is wanted
    lab_forks.begin_forks(0)
    assert (LabProvisioner.forks is not None) is wanted


def test_a_server_in_a_folder_with_a_long_path_is_found(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    server = KernelForkServer((), folder=folder)
    wait_until(lambda: server.is_ready, "it is ready")
    with socket.socket(socket.AF_UNIX) as line, address_in(folder) as address:
        line.connect(address)
    server.close()
