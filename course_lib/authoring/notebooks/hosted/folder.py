"""Write hosted notebooks and what lies around them into a folder, and lose nothing that a person has there.

A list with hashes says what ``course build --hosted`` wrote. A file that is as it was written is replaced; any other
is a person's: then nothing at all is written. What an earlier build wrote and this one does not is removed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from course_lib import __version__
from course_lib.authoring.notebooks.hosted.cells import FOLDER, hosted_notebook
from course_lib.authoring.notebooks.hosted.host_files import SCRIPTS, badge_page, surroundings
from course_lib.authoring.notebooks.hosted.repository import Repository
from course_lib.authoring.notebooks.writing.build import write_whole
from course_lib.base.named_file import text_of
from course_lib.lessons.convert import to_text
from course_lib.lessons.info import LessonError
from course_lib.lessons.source import read_source

__all__ = ["MANIFEST", "hosted_files", "write_hosted"]

MANIFEST = f"{FOLDER}/hosted.json"
_MOST_NAMED = 3


def hosted_files(sources: list[Path], root: Path, repository: Repository, wheel: str = "") -> dict[str, str]:
    """The text of each file, by its path below the repository's root. Equal input gives equal text."""
    course = f"one-model-many-gpus @ {wheel or f'git+{repository.address}@{repository.tag}'}"
    read = [read_source(path) for path in sources]
    files = {
        f"{FOLDER}/{one.info.stem}.ipynb": to_text(hosted_notebook(one, repository, course, __version__))
        for one in read
    }
    files[f"{FOLDER}/README.md"] = badge_page([one.info for one in read], repository)
    files |= surroundings(root, course)
    files[MANIFEST] = json.dumps({name: _digest(text) for name, text in sorted(files.items())}, indent=1) + "\n"
    return files


def write_hosted(files: dict[str, str], folder: Path, root: Path) -> None:
    """Write ``files`` below ``folder``: a new or empty one, a repository's root, or one that was written before.

    Raises:
        LessonError: Something that a person has there would be lost, or the folder is none. Nothing was written.
        OSError: A file cannot be written.
    """
    _need_place(folder, root)
    before = _written_before(folder)
    others = [name for name in files if not _is_ours(folder / name, name, files, before)]
    if others:
        names = ", ".join(others[:_MOST_NAMED]) + (", ..." if len(others) > _MOST_NAMED else "")
        raise LessonError(
            f"in {folder}, {names} {'is' if len(others) == 1 else 'are'} not as `course build --hosted` wrote it, and "
            "would be lost; nothing was written. Move it elsewhere, or give another folder with --to"
        )
    for name, text in files.items():
        write_whole(folder / name, text)
        if name in SCRIPTS:
            (folder / name).chmod(0o755)
    for name, digest in before.items():
        path = folder / name
        if name not in files and _is_notebook_of_ours(name) and _digest_of(path) == digest:
            path.unlink()


def _need_place(folder: Path, root: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise LessonError(f"{folder} is a file; --to is a folder, as {folder.parent / 'hosted-course'}")
    if folder.resolve().is_relative_to((root / "notebooks").resolve()):
        raise LessonError(
            f"{folder} lies among the course's own notebooks; give another folder, or leave --to out for {root}"
        )
    held = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    is_course = {"course_lib", "notebooks", "pyproject.toml"} <= set(held)
    is_place = is_course or ".git" in held or (folder / MANIFEST).is_file()
    if held and not is_place:
        names = ", ".join(held[:_MOST_NAMED]) + (", ..." if len(held) > _MOST_NAMED else "")
        raise LessonError(
            f"{folder} holds other work ({names}); --to is a new or empty folder or the root of a git repository, "
            f"as {folder / 'hosted-course'}"
        )


def _written_before(folder: Path) -> dict[str, str]:
    """The hash of each file that the last build wrote; empty where there was none, or its list cannot be read."""
    try:
        listed = json.loads(text_of(folder / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return {str(name): str(digest) for name, digest in listed.items()} if isinstance(listed, dict) else {}


def _is_ours(path: Path, name: str, files: dict[str, str], before: dict[str, str]) -> bool:
    """Whether nothing of a person's is lost when ``name`` is written."""
    if not path.exists() and not path.is_symlink():
        return True
    if name == MANIFEST:
        return bool(before)
    return _digest_of(path) in (before.get(name), _digest(files[name]))


def _is_notebook_of_ours(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return folder == FOLDER and file.endswith(".ipynb")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest_of(path: Path) -> str:
    try:
        return _digest(text_of(path))
    except (OSError, ValueError):
        return ""
