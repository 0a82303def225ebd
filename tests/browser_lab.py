"""A real `course lab` for the browser tests: a copy of the lessons, a home of its own, and a free port."""

from __future__ import annotations

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

__all__ = ["PARTS", "RunningLab", "chromium", "missing", "running_lab"]

ROOT = Path(__file__).resolve().parent.parent
PARTS = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
_START_LIMIT_S = 120.0
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# All cells are on the page, not only those in view, so that all of them can be looked at.
_WHOLE_PAGE = '{"windowingMode": "none"}'


@dataclass(frozen=True)
class RunningLab:
    """Where a running `course lab` answers, its token, and the folder that it shows."""

    url: str
    token: str
    folder: Path

    def address(self, part: str) -> str:
        return f"{self.url}/lab/tree/notebooks/{part}?token={self.token}&reset"


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
    """Why no browser test can run here; "" where they can."""
    try:
        import axe_playwright_python  # noqa: F401
        import playwright  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed: pip install -e .[browser]"
    return "" if chromium() else f"no Chromium here: neither {', '.join(_BROWSERS)} nor playwright's own"


@contextmanager
def running_lab(folder: Path) -> Iterator[RunningLab]:
    """`course lab` over a copy of the lessons in ``folder``; nothing of it is left afterwards but files."""
    work, home = folder / "work", folder / "home"
    shutil.copytree(ROOT / "notebooks", work / "notebooks", ignore=shutil.ignore_patterns("solutions", "src"))
    shutil.copytree(ROOT / "assets", work / "assets")
    settings = home / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text(_WHOLE_PAGE, encoding="utf-8")
    environment = os.environ | {
        "HOME": str(home),
        "COURSE_HOME": str(home / "course"),
        "COURSE_PROGRESS": "off",
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }
    command = [sys.executable, "-u", "-m", "course_lib.cli", "lab", "--no-browser"]
    command += [f"--ServerApp.root_dir={work}", "--LabApp.expose_app_in_browser=True"]
    told = folder / "told.txt"
    with told.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=work)
    try:
        yield _when_it_answers(process, told, work)
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _when_it_answers(process: subprocess.Popen[bytes], told: Path, work: Path) -> RunningLab:
    ends = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < ends and process.poll() is None:
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\S*[?&]token=(\w+)", told.read_text())
        if found:
            return RunningLab(found[1], found[2], work)
        time.sleep(0.1)
    raise RuntimeError(f"`course lab` has not told its address: {told.read_text()}")
