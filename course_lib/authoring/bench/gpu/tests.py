"""Steps ``tests`` and ``tests_many``: ``pytest -m gpu`` and ``pytest -m multigpu``, each file in a process of its own,
so that one test that hangs or takes its process along costs no other file.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

from course_lib.authoring.bench.gpu.child import Ended, run_child
from course_lib.authoring.bench.gpu.pytest_notes import NOTES
from course_lib.authoring.bench.gpu.task import FAILED, NOT_RUN, PASSED, BenchTask
from course_lib.base.paths import is_installed, needs_clone, project_root

__all__ = ["files_with", "many_gpus", "one_gpu", "run_marked"]

_NOTHING_CHOSEN = 5  # pytest's exit code


def one_gpu(task: BenchTask) -> None:
    """A part for each test marked ``gpu``."""
    run_marked(task, "gpu", project_root() / "tests")


def many_gpus(task: BenchTask) -> None:
    """A part for each test marked ``multigpu``."""
    run_marked(task, "multigpu", project_root() / "tests")


def files_with(mark: str, folder: Path) -> list[Path]:
    """The test files that hold a mark: only these are imported, since others may need packages that are missing."""
    return [path for path in sorted(folder.rglob("test_*.py")) if _has_mark(path.read_text(encoding="utf-8"), mark)]


def _has_mark(code: str, mark: str) -> bool:
    """Whether the code itself has ``mark.gpu``, say; a text that it writes to another file does not count."""
    if f"mark.{mark}" not in code:
        return False
    found = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute) and node.attr == mark)
    return any(ast.unparse(node) in (f"pytest.mark.{mark}", f"mark.{mark}") for node in found)


def run_marked(task: BenchTask, mark: str, folder: Path) -> None:
    """Run the tests with a mark, and tell of each."""
    if is_installed():
        task.tell(f"pytest -m {mark}", NOT_RUN, needs_clone("A test"))
        return
    files = files_with(mark, folder)
    if not files:
        task.tell(f"pytest -m {mark}", FAILED, f"no test in {folder} is marked {mark}")
    for index, path in enumerate(files):
        limit_s = min(task.left_s, 3 * task.left_s / (len(files) - index))
        notes = task.result.with_name(f"{path.stem}.notes")
        notes.unlink(missing_ok=True)
        # addopts: a mark of a plugin that is missing (xdist_group) is no error here
        options = ["-q", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:nbval", "-p", "no:xdist"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "-p",
            "course_lib.authoring.bench.gpu.pytest_notes",
        ]
        ended = run_child(
            [*command, "-m", mark, str(path)],
            limit_s=limit_s,
            folder=folder.parent,
            env={**os.environ, NOTES: str(notes)},
        )
        _tell(task, str(path.relative_to(folder.parent)), mark, notes, ended, limit_s)


def _tell(task: BenchTask, name: str, mark: str, notes: Path, ended: Ended, limit_s: float) -> None:
    """A part for each test that was begun, and one for a process that did not end as pytest does."""
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    tests: dict[str, list[dict[str, Any]]] = {}
    for note in map(json.loads, lines):
        tests.setdefault(note["test"], []).append(note)
    for test, heard in tests.items():
        task.tell(test.rpartition("/")[2], *_outcome(heard))
    well = ended.code in (0, 1, _NOTHING_CHOSEN)
    if not well or (ended.code == _NOTHING_CHOSEN and not tests):
        how = f"not over after {limit_s:.0f} s" if ended.code is None else f"pytest's exit code: {ended.code}"
        task.tell(f"pytest -m {mark} {name}", FAILED, f"{ended.output[-3000:]}\n{how}")


def _outcome(heard: list[dict[str, Any]]) -> tuple[str, str]:
    """How a test went, by what was noted of its phases."""
    for note in heard:
        if note["outcome"] == "failed":
            return FAILED, note["why"]
    for note in heard:
        if note["outcome"] == "skipped":
            return NOT_RUN, note["why"]
    if not any(note["when"] == "teardown" for note in heard):
        return FAILED, "it began and never ended"
    return PASSED, ""
