"""Which notebooks are a learner's work: those that were run, or whose cells are not as they were handed out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from course_lib.base.named_file import text_of
from course_lib.base.paths import is_installed, project_root
from course_lib.lab.folder import find_place

__all__ = ["LearnerWork", "work_in"]

_MOST_BYTES = 1 << 28  # of a notebook with its outputs
_LESSON = re.compile(r"^\d\d[a-z]?_")


@dataclass(frozen=True)
class LearnerWork:
    """The notebooks by their names without suffix, in order; and those that could not be read, with the reason."""

    folder: Path
    notebooks: tuple[tuple[str, NotebookNode], ...]
    skipped: tuple[tuple[str, str], ...] = ()


def work_in(folder: Path | None = None, lessons: Sequence[str] = (), *, everything: bool = False) -> LearnerWork:
    """The work in a folder, or in the one where this learner's notebooks are; of some ``lessons`` ("04", "04a").

    Raises:
        ValueError: There are no notebooks there, or none of a lesson that is asked for.
    """
    place = _folder(folder)
    paths = _notebooks(place)
    for lesson in lessons:
        if not re.fullmatch(r"\d\d[a-z]?", lesson) or not any(_is_of(path, [lesson]) for path in paths):
            labels = dict.fromkeys(path.name.partition("_")[0] for path in paths if _LESSON.match(path.name))
            raise ValueError(f"there is no notebook of {lesson!r} in {place}; there are {', '.join(labels) or 'none'}")
    found, skipped = [], []
    for path in paths:
        if lessons and not _is_of(path, lessons):
            continue
        try:
            notebook = nbformat.reads(text_of(path, most_bytes=_MOST_BYTES), as_version=4)
            cells = [(cell.cell_type, cell.source) for cell in notebook.cells]
        except OSError as error:
            skipped.append((path.name, error.strerror or type(error).__name__))
        except Exception:  # whatever a damaged file makes of the reader
            skipped.append((path.name, "it is no notebook, or a damaged one"))
        else:
            if everything or _was_run(notebook) or cells != _handed_out(path.stem):
                found.append((path.stem, notebook))
    return LearnerWork(place, tuple(found), tuple(skipped))


def _is_of(path: Path, lessons: Sequence[str]) -> bool:
    label = path.name.partition("_")[0]
    return any(label == lesson or label[:2] == lesson for lesson in lessons)


def _notebooks(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.ipynb") if not path.name.startswith("."))


def _folder(asked: Path | None) -> Path:
    """The folder that is asked for, or the first of the usual ones that holds lessons."""
    course = [] if is_installed() else [project_root()]  # nobody works in a package
    usual = [asked] if asked is not None else [Path.cwd(), *_own_folder(), *course]
    for place in usual:
        for folder in (place, place / "notebooks"):
            if folder.is_dir() and any(_LESSON.match(path.name) for path in _notebooks(folder)):
                return folder
    if asked is not None and asked.is_dir() and _notebooks(asked):
        return asked  # notebooks of the learner's own alone
    looked = " nor in ".join(str(place) for place in dict.fromkeys(usual))
    raise ValueError(f"there are no notebooks of the course in {looked}; --folder names the one where yours lie")


def _own_folder() -> list[Path]:
    """Where `course lab` puts this learner's lessons; nothing where it cannot say."""
    try:
        return [find_place().folder]
    except ValueError:
        return []


def _was_run(notebook: NotebookNode) -> bool:
    return any(
        cell.get("execution_count") or cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code"
    )


def _handed_out(stem: str) -> list[tuple[str, str]] | None:
    """The cells of a lesson that nobody has begun; None for what is no lesson of this copy of the course."""
    from course_lib.lessons.convert import learner_notebook
    from course_lib.lessons.info import LessonError
    from course_lib.lessons.source import read_source

    source = project_root() / "notebooks" / "src" / f"{stem}.py"
    if not source.is_file():
        return None
    try:
        return [(cell.cell_type, cell.source) for cell in learner_notebook(read_source(source)).cells]
    except (LessonError, OSError):
        return None
