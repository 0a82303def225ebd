"""Which folder a learner works in: the clone, where it is theirs, and a folder of their own otherwise.

Where pip has installed the course there is no clone, and the lessons come out of the package.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from course_lib.base import paths

__all__ = [
    "FIRST_LESSON",
    "START_PAGE",
    "LessonFolder",
    "default_folder",
    "find_place",
    "lessons_folder",
    "may_write",
    "owner_of",
]

FIRST_LESSON = "notebooks/00_start_here.ipynb"
START_PAGE = "notebooks/start.ipynb"
_NAME = "one-model-many-gpus"


@dataclass(frozen=True)
class LessonFolder:
    """The course, and the folder that JupyterLab opens; they are one for who works in a clone."""

    course: Path
    folder: Path

    @property
    def is_clone(self) -> bool:
        """Whether the notebooks of the course itself are worked on."""
        return self.folder == self.course

    @property
    def is_shared(self) -> bool:
        """Whether the course is another user's to write."""
        return not may_write(self.course)

    @property
    def is_installed(self) -> bool:
        """Whether the course is a package that pip has installed."""
        return paths.is_installed(self.course)


def lessons_folder() -> Path:
    """The course: what the library lies in, a clone or an installed package, or else the folder that this was typed in.

    Raises:
        ValueError: Neither has lessons.
    """
    places = [paths.project_root(), Path.cwd()]
    for place in places:
        if (place / FIRST_LESSON).is_file():
            return place
    looked = " nor in ".join(dict.fromkeys(map(str, places)))
    raise ValueError(
        f"there is no {FIRST_LESSON} in {looked}. Type this in a clone of the course; if its notebooks are "
        "missing there, `course build` makes them."
    )


def default_folder() -> Path:
    """A folder of the learner's own: in the home, or where COURSE_HOME tells learners of one account apart."""
    home = os.environ.get("COURSE_HOME")
    return (Path(home).expanduser().absolute() if home else Path.home()) / _NAME


def may_write(course: Path) -> bool:
    """Whether this user can write the notebooks of a checkout."""
    notebooks = course / "notebooks"
    return os.access(notebooks if notebooks.is_dir() else course, os.W_OK | os.X_OK)


def owner_of(path: Path) -> str:
    """The name of the user who keeps a folder, for sentences; its number where it has no name."""
    try:
        return path.owner()
    except (KeyError, OSError, NotImplementedError):
        number = getattr(path.stat(), "st_uid", None) if path.exists() else None
        return "another user" if number is None else f"user {number}"


def find_place(asked: str | None = None) -> LessonFolder:
    """Where to work: ``asked``, else COURSE_FOLDER, else the clone where it can be written, else a default.

    Raises:
        ValueError: There are no lessons, or the folder cannot be the learner's.
    """
    course = lessons_folder()
    if asked is not None and not asked.strip():
        raise ValueError("--folder is empty; give it the folder for your lessons, as in --folder ~/lessons")
    given = asked or os.environ.get("COURSE_FOLDER", "").strip()
    if not given and may_write(course) and not paths.is_installed(course):
        return LessonFolder(course, course)
    folder = Path(os.path.abspath(Path(given).expanduser())) if given else default_folder()
    if folder.resolve() == course.resolve():
        folder = course
    _check(folder, course)
    return LessonFolder(course, folder)


def _another_than(folder: Path) -> Path:
    usual = default_folder()
    return usual if usual.resolve() != folder.resolve() else usual.with_name(f"{usual.name}-lessons")


def _check(folder: Path, course: Path) -> None:
    if folder == course and not may_write(course):
        raise ValueError(
            f"{course} is the course itself, which {owner_of(course)} keeps and you cannot write. "
            f"Your lessons can lie in {default_folder()}, which is taken where you name no folder."
        )
    if paths.is_installed(course) and folder.resolve().is_relative_to(course):
        raise ValueError(
            f"{folder} belongs to the installed package, and goes with it. Your lessons can lie in "
            f"{default_folder()}, which is taken where you name no folder."
        )
    if folder != course and (folder / "notebooks" / "src").is_dir():
        raise ValueError(
            f"{folder} is a clone of the course. {folder / 'course'} lab opens it; for your lessons name "
            f"another folder, {_another_than(folder)} say: --folder, or COURSE_FOLDER."
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"{folder} is a file, and your lessons need a folder: {folder.with_name(folder.name + '-lessons')} say."
        )
