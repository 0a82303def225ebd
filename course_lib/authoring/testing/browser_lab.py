"""A real `course lab` for a browser that is driven: a folder of notebooks, a home of its own, and a free port."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from course_lib.base import paths

__all__ = ["BROWSER_OPTIONS", "FRONT_ENDS", "RunningLab", "chromium", "missing", "running_lab"]

_START_LIMIT_S = 120.0
BROWSER_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What opens a notebook, by name: the module that is run, and where its page of a notebook is.
FRONT_ENDS = {
    "course lab": ("course_lib.cli", "lab/tree"),
    "jupyter lab": ("jupyterlab", "lab/tree"),
    "jupyter notebook": ("notebook", "notebooks"),
}
# All cells are on the page, not only those in view, so that all of them can be looked at.
_WHOLE_PAGE = '{"windowingMode": "none"}'


@dataclass(frozen=True)
class RunningLab:
    """Where a running `course lab`, or another front end, answers, its token, and the folder that it shows."""

    url: str
    token: str
    folder: Path
    front_end: str = "course lab"

    def address(self, part: str) -> str:
        return self.address_of(f"notebooks/{part}")

    def address_of(self, path: str) -> str:
        """Of any notebook by its path in the folder."""
        place = FRONT_ENDS[self.front_end][1]
        return f"{self.url}/{place}/{path}?token={self.token}&reset"


def chromium() -> str:
    """The Chromium to drive: one of the system, or the one that playwright has brought; "" for none."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found:
        return found
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else ""


def missing() -> str:
    """Why no browser can be driven here; "" where one can."""
    for package in ("playwright", "axe_playwright_python"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed: pip install -e .[browser]"
    return "" if chromium() else f"no Chromium here: neither {', '.join(_BROWSERS)} nor playwright's own"


def _command(front_end: str, work: Path) -> list[str]:
    module = FRONT_ENDS[front_end][0]
    command = [sys.executable, "-u", "-m", module, "--no-browser", f"--ServerApp.root_dir={work}"]
    if front_end == "course lab":
        command.insert(4, "lab")
    else:  # as it comes, but for an address of its own and a container's only user
        command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--allow-root"]
    return command


@contextmanager
def running_lab(work: Path, home: Path, front_end: str = "course lab") -> Iterator[RunningLab]:
    """A front end over the folder ``work``, with settings in ``home``; its processes end with the block."""
    settings = home / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text(_WHOLE_PAGE, encoding="utf-8")
    environment = os.environ | _environment(home)
    command = _command(front_end, work)
    told = home / "told.txt"
    with told.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=work)
    try:
        yield _when_it_answers(process, told, work, front_end)
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _when_it_answers(process: subprocess.Popen[bytes], told: Path, work: Path, front_end: str) -> RunningLab:
    ends = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < ends and process.poll() is None:
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\S*[?&]token=(\w+)", told.read_text())
        if found:
            return RunningLab(found[1], found[2], work, front_end)
        time.sleep(0.1)
    raise RuntimeError(f"`{front_end}` has not told its address: {told.read_text()}")


def _environment(home: Path) -> dict[str, str]:
    """All that JupyterLab and the course keep lies in ``home``."""
    return {
        "HOME": str(home),
        "COURSE_HOME": str(home / "course"),
        "COURSE_PROGRESS": "off",
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "PYTHONPATH": paths.python_path(),
    }
