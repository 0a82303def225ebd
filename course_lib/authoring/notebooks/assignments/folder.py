"""Write the folder in which nbgrader works: its settings, and an assignment for each part of a lesson with checks.

A file that is there and was changed since it was written here is a person's, and is kept.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_lib.authoring.notebooks.assignments.cells import assignment_notebook, content_hash, pictures_in
from course_lib.authoring.notebooks.assignments.settings import CONFIG
from course_lib.authoring.notebooks.writing.build import write_whole
from course_lib.lessons.convert import to_text
from course_lib.lessons.info import LessonError
from course_lib.lessons.source import read_source

__all__ = ["SETTINGS", "KeptFolder", "write_assignments"]

SETTINGS = "nbgrader_config.py"


class KeptFolder(LessonError):
    """Files of a person stand where assignments would be written. The text names them, and says what to do."""


def write_assignments(folder: Path, sources: list[Path], root: Path) -> tuple[list[str], list[str]]:
    """Write an assignment for each lesson of ``sources``; gives those written, and those without a check.

    All else is written first; then :class:`Kept` is raised where a person's changes were found. Raises LessonError
    where ``folder`` is a file or lies among the course's own notebooks.
    """
    _need_folder(folder, root)
    notebooks = {path.stem: assignment_notebook(read_source(path)) for path in sources}
    given = {stem: one for stem, one in notebooks.items() if _points(one)}
    kept = list(_write_settings(folder))
    for stem, notebook in given.items():
        kept += _write_notebook(folder / "source" / stem / f"{stem}.ipynb", notebook, root)
    if kept:
        raise KeptFolder(
            f"{', '.join(kept)}: changed since it was written, and kept as it is; move it away and build again "
            "for what the course would write there"
        )
    return list(given), [stem for stem in notebooks if stem not in given]


def _need_folder(folder: Path, root: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise LessonError(f"{folder} is a file; assignments need a folder, a new one or one of nbgrader's")
    if folder.resolve().is_relative_to((root / "notebooks").resolve()):
        raise LessonError(
            f"{folder} lies among the course's own notebooks; give a folder elsewhere, such as {root / 'grading'}"
        )


def _points(notebook: NotebookNode) -> float:
    return sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in notebook.cells)


def _write_settings(folder: Path) -> Iterator[str]:
    path = folder / SETTINGS
    if path.exists() and not _is_sealed(path.read_text(encoding="utf-8", errors="replace")):
        yield str(path)
    else:
        write_whole(path, CONFIG + _seal(CONFIG))


def _seal(text: str) -> str:
    return f"# As the course wrote it: {hashlib.sha256(text.encode()).hexdigest()}\n"


def _is_sealed(text: str) -> bool:
    """Whether a file is as an edition of the course wrote it: its last line is the seal of those above."""
    *above, last = text.splitlines(keepends=True) or [""]
    return last == _seal("".join(above))


def _write_notebook(path: Path, notebook: NotebookNode, root: Path) -> Iterator[str]:
    notebook.metadata["course"] = {"assignment_sha256": content_hash(notebook)}
    if path.exists() and not _is_ours(path):
        yield str(path)
        return
    write_whole(path, to_text(notebook))
    for name in pictures_in(notebook):
        (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, path.parent / name)


def _is_ours(path: Path) -> bool:
    """Whether a notebook is as an earlier build has left it, by the hash that the build wrote into it."""
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        return notebook.metadata.get("course", {}).get("assignment_sha256") == content_hash(notebook)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError):
        return False
