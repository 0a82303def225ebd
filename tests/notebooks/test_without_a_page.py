"""Lesson 00 as a learner gets it, alone in an empty folder, run by what shows no page: nbconvert and papermill."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
LESSON = "00_start_here.ipynb"
COMMANDS = {
    "nbconvert": ["nbconvert", "--to", "notebook", "--execute", "--output", "done", LESSON],
    "papermill": ["papermill", LESSON, "done.ipynb", "--no-progress-bar"],
}
pytestmark = [pytest.mark.long, pytest.mark.limit_s(900)]


def run(folder: Path, *words: str) -> None:
    """``python -m`` with a home of its own; the course is not in the folder, and is installed."""
    environment = os.environ | {
        "COURSE_HOME": str(folder / "home"),
        "COURSE_PROGRESS": "off",
        "COURSE_SEATS": "off",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_lesson_alone_runs_to_its_end_and_has_its_pictures(name: str, tmp_path: Path):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed: pip install {name}")
    shutil.copy(ROOT / "notebooks" / LESSON, tmp_path)
    run(tmp_path, *COMMANDS[name])
    notebook = nbformat.read(tmp_path / "done.ipynb", 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    (pictures,) = [output.data["text/html"] for output in code[0].outputs]
    named = re.findall(r"\.\./(assets/[^)\s]+\.png)", "".join(cell.source for cell in notebook.cells))
    assert set(re.findall(r"data-name='([^']+)'", pictures)) == set(named)
    run(tmp_path, "nbconvert", "--to", "html", "done.ipynb")
    page = (tmp_path / "done.html").read_text(encoding="utf-8")
    assert set(re.findall(r"data-name=[\"']([^\"']+)", page)) == set(named)
