"""A notebook's cell begins to start ranks as it imports the cluster; nothing else does, and nobody notices."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from waiting import all_ended, wait_until

from course_lib.cluster.api import notebook
from course_lib.cluster.process import processes
from course_lib.lessons.kernel_sockets import listen_at_files

pytestmark = pytest.mark.limit_s(240.0)

SERVER = "from multiprocessing import forkserver; pid = forkserver._forkserver._forkserver_pid"


def script(text: str, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, **options)


# --- In a real notebook ---------------------------------------------------------------------------


def test_a_cell_that_imports_the_cluster_begins_to_start_ranks(sockets: Path) -> None:
    from jupyter_client.manager import KernelManager

    said: list[str] = []

    def hear(message) -> None:
        content = message["content"]
        said.append(content.get("text") or content.get("evalue") or "")

    manager = KernelManager(kernel_name="python3")
    listen_at_files(manager, sockets / "kernel")
    manager.start_kernel()
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=120)

        def cell(source: str) -> str:
            said.clear()
            reply = client.execute_interactive(source, timeout=120, output_hook=hear)
            assert reply["content"]["status"] == "ok", said
            return "".join(said)

        assert cell("from course_lib import shared_cluster") == ""
        cell(SERVER)
        pid = int(cell("print(pid)"))
        assert cell("import sys; print('torch' in sys.modules)") == "False\n"  # the server's work, not the cell's
        os.kill(pid, signal.SIGINT)  # as Jupyter's interrupt does, which is for the notebook
        cell("ranks = shared_cluster(2)")
        assert cell("print(list(ranks.run(lambda me: me.rank)))") == "[0, 1]\n"
        cell(SERVER)
        assert int(cell("print(pid)")) == pid, "ranks come from the server that the import has begun"
    finally:
        client.stop_channels()
        manager.signal_kernel(signal.SIGKILL)
        manager.shutdown_kernel(now=True)
    assert all_ended([pid])


def test_a_script_that_imports_everything_starts_no_process() -> None:
    done = script(
        f"""
        import course_lib, course_lib.cluster
        from course_lib import Cluster, ask, calibrate, shared_cluster
        {SERVER}
        print(pid)
        """
    )
    assert (done.stdout, done.stderr) == ("None\n", "")


# --- In what only looks like one --------------------------------------------------------------------


class Shell:
    """What of IPython's shell is asked for."""

    def __init__(self, user_ns: dict, **more: object) -> None:
        self.user_ns = user_ns
        vars(self).update(more)

    def register_magic_function(self, *_: object, **__: object) -> None:
        pass


@pytest.fixture
def warmed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows with each start of the server, which is none."""
    starts: list[str] = []
    monkeypatch.setattr(processes, "warm", lambda: starts.append("warm"))
    monkeypatch.setattr("course_lib.cluster.api.magic.register", lambda shell: None)
    return starts


def as_in(shell: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)


def test_a_kernel_s_cell(warmed, monkeypatch) -> None:
    as_in(Shell(globals(), kernel=object()), monkeypatch)
    notebook.prepare()
    assert warmed == ["warm"]


@pytest.mark.parametrize(
    "shell",
    [None, Shell(globals()), Shell({}, kernel=object())],
    ids=["no shell", "a terminal", "a kernel, but no cell of it"],
)
def test_elsewhere_an_import_starts_nothing(warmed, monkeypatch, shell) -> None:
    as_in(shell, monkeypatch)
    notebook.prepare()
    assert warmed == []


def test_a_server_that_cannot_start_does_not_fail_the_import(warmed, monkeypatch) -> None:
    def refused() -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(processes, "warm", refused)
    as_in(Shell(globals(), kernel=object()), monkeypatch)
    notebook.prepare()


# --- What the server does meanwhile -------------------------------------------------------------------


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder with modules that make trouble while they are imported."""
    for name, body in {
        "loud": "import os\nprint('by Python')\nos.write(2, b'by C')",
        "broken": "raise RuntimeError('half of a library')",
        "struck": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.1)",
        "fine": "",
        "slow": "import os, time\nopen('began', 'w').close()\nowner = os.getppid()\n"
        "while os.getppid() == owner:\n    time.sleep(0.01)",
        "late": "open('late', 'w').close()",
    }.items():
        (tmp_path / f"{name}.py").write_text(body)
    return tmp_path


LOAD = """
import gc, signal, sys
sys.path.insert(0, '')
from course_lib.cluster.process import preload
"""


@pytest.mark.long
def test_loading_is_silent_survives_and_leaves_things_as_they_were(modules: Path) -> None:
    done = script(
        LOAD + "preload.load(('loud', 'broken', 'struck', 'fine'))\n"
        "assert 'fine' in sys.modules\n"
        "assert gc.isenabled() and gc.get_freeze_count() > 0\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "print('heard again')",
        cwd=modules,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard again\n", "")


@pytest.mark.long
def test_loading_ends_with_its_notebook(modules: Path) -> None:
    load = LOAD + "preload.load(('slow', 'late'))"
    owner = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {load!r}])"],
        cwd=modules,
    )
    wait_until((modules / "began").exists, "the slow module is being imported")
    (child,) = psutil.Process(owner.pid).children()
    owner.kill()
    owner.wait()
    assert all_ended([child.pid])
    assert not (modules / "late").exists()


def test_kernels_are_told_from_terminals_by_a_name_that_only_they_have() -> None:
    from ipykernel.zmqshell import ZMQInteractiveShell
    from IPython.core.interactiveshell import InteractiveShell

    assert hasattr(ZMQInteractiveShell, "kernel")
    assert not hasattr(InteractiveShell, "kernel")
