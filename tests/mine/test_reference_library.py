"""A learner who solves lessons 02 to 05 in order: what passes is kept, and the pages that follow run on it."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.base.paths import project_root
from course_lib.mine.table import ENTRIES

pytestmark = [pytest.mark.long, pytest.mark.limit_s(3000)]

SOLUTIONS = project_root() / "notebooks" / "solutions"
LESSONS = ("02", "03", "04", "05")
# Below pytest nothing is kept of a learner, unless a cell says otherwise.
KEEPS = "from course_lib.learn.records import store as _store\n_store._is_off = lambda: False"
_USE = re.compile(r"\bmine\.([a-zA-Z_]\w*)")


def pages() -> list[Path]:
    return [path for lesson in LESSONS for path in sorted(SOLUTIONS.glob(f"{lesson}*.ipynb"))]


def printed(cell) -> str:
    return "".join("".join(output.get("text", "")) for output in cell.get("outputs", []))


def solved(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The page, executed as its solver would, with nothing but their own home."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(KEEPS))
    resources = {"metadata": {"path": folder}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources).execute()
    return notebook


def used_entries(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """The entries of the library that a page's code uses, each with what the cells that use it printed."""
    names = {entry.name for entry in ENTRIES}
    told: dict[str, str] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for name in names.intersection(_USE.findall(cell.source)):
                told[name] = told.get(name, "") + printed(cell)
    return told


def test_lessons_run_on_what_their_solver_has_built(anna, tmp_path):
    kept_before: set[str] = set()
    for path in pages():
        notebook = solved(path, tmp_path)
        for name, told in used_entries(notebook).items():
            if name in kept_before:
                assert f"mine.{name} is yours" in told, (path.name, name, told)
        kept_before |= {entry.name for entry in ENTRIES if _stands_in(anna.folder, entry)}
    of_these = {entry.name for entry in ENTRIES if entry.exercise[:2] in LESSONS}
    assert kept_before == of_these


def _stands_in(folder: Path, entry) -> bool:
    file = folder / f"{entry.module}.py"
    return file.exists() and bool(re.search(rf"^(def|class) {entry.name}\b", file.read_text("utf-8"), re.M))
