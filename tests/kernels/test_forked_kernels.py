"""Kernels that begin as forks: the same kernel, asked in the same way, and nothing of it is left behind."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from waiting import all_ended, wait_until

from course_lib.authoring import testing
from course_lib.authoring.testing import parts
from course_lib.authoring.testing.warm_kernels import WarmProvisioner
from course_lib.base import paths
from course_lib.kernels import modules
from course_lib.kernels.forked_kernel import ForkedKernel
from course_lib.kernels.server import KernelForkServer

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere kernels start as a learner's do"),
    pytest.mark.xdist_group("warm_kernels"),
    pytest.mark.limit_s(200.0),
]
LIMIT_S = 100
FEW = ("course_lib.base.checks", "ipykernel.kernelapp", "ipykernel.ipkernel", "colorsys", "numpy.random")


@pytest.fixture(scope="module")
def fork_server() -> Iterator[KernelForkServer]:
    fork_server = KernelForkServer(FEW)
    yield fork_server
    fork_server.close()


@pytest.fixture
def installed(fork_server: KernelForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = KernelProvisionerFactory.instance()
    monkeypatch.setattr(factory, "default_provisioner_name", factory.default_provisioner_name)
    monkeypatch.setattr(WarmProvisioner, "folder", fork_server.folder)
    WarmProvisioner.install()


class Kernel:
    """A kernel with what its cells print."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), env={**os.environ, **env})
        self.process = psutil.Process(self.manager.provisioner.pid)  # type: ignore[union-attr]
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT_S)

    def cell(self, source: str) -> str:
        said: list[str] = []

        def hear(message) -> None:
            content = message["content"]
            said.append(content.get("text") or content.get("ename") or "")

        self.client.execute_interactive(source, timeout=LIMIT_S, output_hook=hear)
        return "".join(said)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(installed: None, tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path, MARK="here")
    yield kernel
    kernel.close()


# --- A kernel like any other ----------------------------------------------------------------------------------


def test_it_has_what_it_was_given_and_nothing_of_the_course(
    kernel: Kernel, fork_server: KernelForkServer, tmp_path: Path
) -> None:
    assert kernel.process.ppid() == fork_server.pid
    assert kernel.cell("import os, sys; print(os.getcwd(), os.environ['MARK'])") == f"{tmp_path} here\n"
    assert kernel.cell("print('colorsys' in sys.modules)") == "True\n"
    assert kernel.cell("print([name for name in sys.modules if name.startswith('course')])") == "[]\n"
    assert kernel.cell("print('' in sys.path, [p for p in sys.path if p.endswith('testing')])") == "True []\n"
    open_files = kernel.cell("print(sorted(os.readlink(f.path) for f in os.scandir('/proc/self/fd/')))")
    assert str(fork_server.folder) not in open_files


def test_two_kernels_draw_other_numbers(kernel: Kernel, tmp_path: Path) -> None:
    other = Kernel(tmp_path)
    drawn = [one.cell("import random, numpy; print(random.random(), numpy.random.random())") for one in (kernel, other)]
    other.close()
    assert set(drawn[0].split()).isdisjoint(drawn[1].split())


def test_it_takes_no_port_that_a_rank_of_another_notebook_may_want(
    kernel: Kernel, fork_server: KernelForkServer
) -> None:
    assert kernel.manager.get_connection_info()["transport"] == "ipc"
    assert len(list(fork_server.folder.glob("kernel-*"))) == 5  # shell, iopub, stdin, control, heartbeat


def test_an_interrupt_ends_the_cell_and_a_shutdown_the_kernel(kernel: Kernel) -> None:
    ringing = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
    assert kernel.cell(ringing) == "KeyboardInterrupt"
    assert kernel.cell("print(1 + 1)") == "2\n"
    family = [kernel.process, *kernel.process.children(recursive=True)]
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)  # as nbval does
    assert all_ended(one.pid for one in family)


FORK_SERVER = """
import multiprocessing, os
from multiprocessing import forkserver

context = multiprocessing.get_context("forkserver")

def exit_code(function, number):
    child = context.Process(target=function, args=(number,))
    child.start()
    child.join()
    return child.exitcode
"""


def test_the_first_fork_server_is_lent_and_a_second_one_begins_as_ever(kernel: Kernel) -> None:
    (lent,) = kernel.process.children()
    kernel.cell(FORK_SERVER)
    kernel.cell("os.environ['MARK'] = 'changed'")
    assert kernel.cell("print(exit_code(os._exit, 7))") == "7\n"
    assert kernel.cell("print(forkserver._forkserver._forkserver_pid)") == f"{lent.pid}\n"
    told = "print(exit_code(exec, 'import os; os._exit(len(os.environ[\"MARK\"]))'))"
    assert kernel.cell(told) == f"{len('changed')}\n", "with the environment of the moment it is asked"
    there = "print(exit_code(exec, 'import os, sys; os._exit(\"course_lib.base.checks\" in sys.modules)'))"
    assert kernel.cell(there) == "1\n", "what ranks need of the course is there, and not in the kernel"
    lent.kill()
    assert all_ended([lent.pid])
    assert kernel.cell("print(exit_code(os._exit, 8))") == "8\n"
    assert kernel.cell("print(forkserver._forkserver._forkserver_pid)") != f"{lent.pid}\n"


# --- Nothing is left -------------------------------------------------------------------------------------------


def asleep(fork_server: KernelForkServer, folder: Path) -> ForkedKernel:
    """A kernel that nobody asks anything."""
    with open(os.devnull, "r+b") as nothing:
        arguments = ["kernel", "-f", str(folder / "connection.json")]
        kernel = ForkedKernel(
            fork_server.folder, arguments, env=os.environ, cwd=str(folder), fds=[nothing.fileno()] * 3
        )
    return kernel


def test_a_kernel_ends_with_the_one_who_asked_for_it(fork_server: KernelForkServer, tmp_path: Path) -> None:
    kernel, other = asleep(fork_server, tmp_path), asleep(fork_server, tmp_path)
    kernel._connection.close()
    assert all_ended([kernel.pid])
    assert other.poll() is None
    other.kill()
    assert other.wait() == -signal.SIGKILL
    assert other.poll() == -signal.SIGKILL


def test_all_end_with_the_run_and_a_kernel_then_starts_as_a_learner_s_does(tmp_path: Path, installed) -> None:
    fork_server = KernelForkServer(FEW)
    kernel = asleep(fork_server, tmp_path)
    fork_server.close()
    fork_server.close()
    assert all_ended([kernel.pid])
    assert kernel.poll() is not None
    assert not fork_server.folder.exists()
    WarmProvisioner.folder = fork_server.folder
    cold = Kernel(tmp_path)
    try:
        assert cold.process.ppid() == os.getpid()
        assert cold.cell("import sys; print('colorsys' in sys.modules)") == "False\n"
    finally:
        cold.close()


@pytest.mark.long
def test_all_end_when_the_run_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from course_lib.kernels.forked_kernel import ForkedKernel\n"
        "from course_lib.kernels.server import KernelForkServer\n"
        "fork_server = KernelForkServer(('ipykernel.kernelapp',)); import os\n"
        "arguments = ['kernel', '-f', sys.argv[1] + '/connection.json']\n"
        "kernel = ForkedKernel(fork_server.folder, arguments, env=os.environ, cwd='.', fds=[0, 2, 2])\n"
        "print(fork_server.pid, kernel.pid, fork_server.folder, flush=True); time.sleep(600)"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert run.stdout is not None
    *pids, folder = run.stdout.readline().split()
    run.kill()
    run.wait()
    assert all_ended(map(int, pids))
    wait_until(lambda: not Path(folder).exists(), "its folder is removed")


# --- In the run of the notebooks ---------------------------------------------------------------------------------


def test_the_first_solution_starts_as_a_learner_s_does_and_the_others_are_forked(tmp_path: Path) -> None:
    (tmp_path / "notebooks" / "solutions").mkdir(parents=True)
    for name in ("00_a", "01_b"):
        (tmp_path / "notebooks" / "solutions" / f"{name}.ipynb").touch()
    assert "course_lib.authoring.testing.warm_kernels" not in parts.commands_of("solutions", root=tmp_path)[0]
    (tmp_path / "notebooks" / "solutions" / "02_c.ipynb").touch()
    (command,) = parts.commands_of("solutions", root=tmp_path)
    assert command[command.index("--cold-start") + 1] == "00_a.ipynb"


@pytest.mark.long
def test_outputs_are_compared_and_errors_seen_in_forked_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from test_testing import write_notebook

    (tmp_path / "pyproject.toml").write_text("")
    solutions = tmp_path / "notebooks" / "solutions"
    loaded = "import sys; print('colorsys' in sys.modules)"
    write_notebook(solutions, "00_cold.ipynb", code=loaded, output="False\n")
    write_notebook(solutions, "01_warm.ipynb", code=loaded, output="True\n")
    write_notebook(solutions, "02_lie.ipynb", code="print(1 + 1)", output="3\n")
    write_notebook(solutions, "03_error.ipynb", code="1 / 0", output="")
    options = ["-n", "1", "--warm-modules", ",".join(FEW)]
    assert testing.run_parts(["solutions"], root=tmp_path, pytest_options=options) == 1
    out = capsys.readouterr().out
    assert "2 failed, 2 passed" in out
    assert "ZeroDivisionError" in out
    assert "02_lie" in out


def test_what_ranks_need_is_imported_once() -> None:
    preload = ast.parse((paths.project_root() / "course_lib/cluster/process/preload.py").read_text())
    (names,) = [
        ast.literal_eval(node.value)
        for node in preload.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES"
    ]
    assert set(names) <= set(modules.NAMES)
    of_the_course = [number for number, name in enumerate(modules.NAMES) if name.startswith("course_lib")]
    assert max(of_the_course) < modules.NAMES.index("ipykernel.kernelapp")
