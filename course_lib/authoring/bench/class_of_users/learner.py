"""One learner of a bench: starts ``course lab``, opens a lesson's kernel there, runs its cells, and ends it all."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient

from course_lib.authoring.bench.class_of_users.users import User, processes_of

__all__ = ["LearnerOutcome", "work_through"]

_START_LIMIT_S = 600.0
_CELL_LIMIT_S = 900.0
_END_LIMIT_S = 60.0
_PICTURE = re.compile(r"\(\.\./(assets/[^)\s\"]+)\)")  # as the text of a notebook names it


@dataclass
class LearnerOutcome:
    """What a learner met: seconds of the start and of each lesson, errors, and what came on stderr."""

    errors: list[str] = field(default_factory=list)
    times_s: dict[str, float] = field(default_factory=dict)
    start_s: float = 0.0
    stderr: str = ""
    transports: set[str] = field(default_factory=set)


def work_through(
    course: Path, user: User, stems: Sequence[str], *, started: Callable[[User, int], None]
) -> LearnerOutcome:
    """Run the solved code of each lesson in a kernel of the user's own JupyterLab; never raises."""
    outcome, began_s = LearnerOutcome(), time.perf_counter()
    log = user.home / "lab.log"
    try:
        with log.open("w") as errors:
            server = subprocess.Popen(
                [str(course / "course"), "lab", "--no-browser"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                process_group=0,
                **user.as_them(),
            )
        started(user, server.pid)
        with _ended(server, user, outcome):
            lab = _Lab(_address(server), user.home)
            outcome.start_s = time.perf_counter() - began_s
            for stem in stems:
                lesson_s = time.perf_counter()
                _run_lesson(lab, course, stem, outcome)
                outcome.times_s[stem] = time.perf_counter() - lesson_s
    except Exception as error:  # a line of the report, like all that goes wrong
        outcome.errors.append(f"{user.name}: {type(error).__name__}: {error}")
    with contextlib.suppress(OSError):
        said = log.read_text(errors="replace")
        outcome.stderr += said
        if outcome.errors:
            outcome.errors.append(f"{user.name}: course lab said at last: {said[-500:].strip()}")
    return outcome


@contextlib.contextmanager
def _ended(server: subprocess.Popen[str], user: User, outcome: LearnerOutcome) -> Any:
    """End the server as a closed terminal does, and say what it has left."""
    try:
        yield
    finally:
        server.terminate()
        try:
            server.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            outcome.errors.append(f"{user.name}: course lab did not end within {_END_LIMIT_S:.0f} s")
            server.kill()
            server.wait()
        end_s = time.monotonic() + _END_LIMIT_S
        while (left := processes_of(user)) and time.monotonic() < end_s:
            time.sleep(0.2)
        outcome.errors += [f"{user.name}: process {process.pid} is left" for process in left]


def _address(server: subprocess.Popen[str]) -> str:
    """The address that `course lab` prints, with its token."""
    said: list[str] = []

    def read() -> None:
        assert server.stdout is not None
        said.extend(iter(server.stdout.readline, ""))

    threading.Thread(target=read, daemon=True).start()  # to the end, so that the pipe is never full
    end_s = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < end_s:
        for line in said[:]:
            if found := re.search(r"http://\S+\?token=\w+", line):
                return found[0]
        if server.poll() is not None:
            raise RuntimeError(f"course lab ended with {server.returncode}: {' '.join(said)}")
        time.sleep(0.05)
    raise TimeoutError(f"course lab gave no address within {_START_LIMIT_S:.0f} s")


class _Lab:
    """A learner's JupyterLab, spoken to as a browser does."""

    def __init__(self, address: str, home: Path) -> None:
        found = re.match(r"(http://[^/]+)/.*\?token=(\w+)", address)
        assert found is not None
        self._base, self._token, self._home = found[1], found[2], home

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        head = {"Authorization": f"token {self._token}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self._base}/api/{path}", data, head, method=method)
        with urllib.request.urlopen(asked, timeout=_START_LIMIT_S) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def fetch_picture(self, name: str) -> None:
        """Ask for a file as a page asks for its pictures. Raises ``HTTPError`` where it is not given."""
        address = f"{self._base}/files/{name}?token={self._token}"
        with urllib.request.urlopen(address, timeout=_START_LIMIT_S) as answer:
            answer.read()

    def connection_file(self, kernel: str) -> Path:
        return self._home / ".local" / "share" / "jupyter" / "runtime" / f"kernel-{kernel}.json"


def _run_lesson(lab: _Lab, course: Path, stem: str, outcome: LearnerOutcome) -> None:
    path = f"notebooks/{stem}.ipynb"
    notebook = lab.ask("GET", f"contents/{path}")["content"]  # it lies in the learner's folder
    for picture in sorted(set(_PICTURE.findall(json.dumps(notebook)))):
        try:
            lab.fetch_picture(picture)
        except urllib.error.HTTPError as error:
            outcome.errors.append(f"{stem}: {picture} is not given to a browser: {error}")
    kernel_wish = {"path": path, "name": stem, "type": "notebook", "kernel": {"name": "python3"}}
    session = lab.ask("POST", "sessions", kernel_wish)
    client = BlockingKernelClient()
    client.load_connection_file(str(lab.connection_file(session["kernel"]["id"])))
    outcome.transports.add(client.transport)
    client.start_channels()
    try:
        _wait_for_kernel(client)
        cells = json.loads((course / "notebooks" / "solutions" / f"{stem}.ipynb").read_text())["cells"]
        for number, cell in enumerate(cells, 1):
            if cell["cell_type"] == "code":
                _run_cell(client, f"{stem}, cell {number}", cell, outcome)
    finally:
        client.stop_channels()
        lab.ask("DELETE", f"sessions/{session['id']}")


def _wait_for_kernel(client: BlockingKernelClient) -> None:
    """Ask until the kernel answers and is heard. The client's own waiting takes a busy kernel for a dead one."""
    end_s, answered = time.monotonic() + _START_LIMIT_S, False
    while time.monotonic() < end_s:
        client.kernel_info()
        with contextlib.suppress(queue.Empty):
            if not answered:
                client.get_shell_msg(timeout=5)
                answered = True
            client.get_iopub_msg(timeout=5)
            return
    raise TimeoutError(f"the kernel did not answer within {_START_LIMIT_S:.0f} s")


def _run_cell(client: BlockingKernelClient, where: str, cell: dict[str, Any], outcome: LearnerOutcome) -> None:
    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stderr":
            outcome.stderr += content["text"]

    source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    answer = client.execute_interactive(source, timeout=_CELL_LIMIT_S, allow_stdin=False, output_hook=hear)
    content = answer["content"]
    may_raise = "raises-exception" in cell["metadata"].get("tags", [])
    if content["status"] == "error" and not may_raise:
        outcome.errors.append(f"{where}: {content['ename']}: {content['evalue']}")
