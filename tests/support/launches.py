"""Programs to take home, started by torchrun for real from a copy beside which there is no course."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

import course_lib

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--monitor-interval", "0.1"]
TWO_RANKS = [*TORCHRUN, "--standalone", "--nproc-per-node", "2"]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC_", "LOCAL_"))},
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # or restarted ranks look for dead ones: see start.py
    "RES_OPTIONS": "timeout:1 attempts:1",  # a name server that does not answer must not cost five seconds
}
_LIMIT_S = 480  # of one launch


class Launch:
    """A process of ours with what it prints; at the end nothing of it is left."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.handle = psutil.Process(self.process.pid)
        self.family: set[psutil.Process] = {self.handle}
        self.text = ""
        self.limit = threading.Timer(_LIMIT_S, self.end)
        self.limit.start()

    def read_until(self, wanted: str) -> None:
        """Read what it prints, up to a line that holds ``wanted``."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.text += line
            if wanted in line:
                self.family |= set(self.handle.children(recursive=True))
                return
        raise AssertionError(f"{wanted!r} was never printed:\n{self.text}")

    def finish(self) -> int:
        """Read to the end; the exit code."""
        assert self.process.stdout
        self.text += self.process.stdout.read()
        return self.process.wait()

    def rank(self, number: int) -> psutil.Process:
        """The process of a rank, by the environment that torchrun gave it."""
        children = self.handle.children()
        return next(child for child in children if child.environ().get("RANK") == str(number))

    def end(self) -> None:
        self.limit.cancel()
        with contextlib.suppress(psutil.NoSuchProcess):
            self.family |= set(self.handle.children(recursive=True))
        for member in self.family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()  # psutil compares the start time: no stranger is hit
        self.process.wait()


def taken_home(program: str, folder: Path) -> Path:
    """The folder with a copy of the program in it, and something in place of the course that must not be asked for."""
    source = Path(course_lib.__file__).parent / "examples" / program
    shutil.copytree(source, folder / program, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("course_lib", "sklearn", "tqdm", "matplotlib"):
        (folder / f"{name}.py").write_text("raise ImportError('the program to take home stands alone')")
    return folder


@contextlib.contextmanager
def launched(program: str, command: list[str], folder: Path) -> Iterator[Launch]:
    """``command`` in a folder where ``program`` was copied to."""
    launch = Launch(command, taken_home(program, folder))
    try:
        yield launch
        _, left = psutil.wait_procs(launch.family, timeout=60)  # orphaned workers notice within five seconds
        assert not left, f"left behind: {left}"
    finally:
        launch.end()
