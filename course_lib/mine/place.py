"""Where a learner's own library lies, and whether it is used at all."""

from __future__ import annotations

import os
from pathlib import Path

from course_lib.learn.records.store import store

__all__ = ["FOLDER", "is_off", "lessons_folder", "mine_folder", "shown_path"]

FOLDER = "mine"
_OFF = ("0", "off", "no", "false")


def is_off() -> bool:
    """Off where ``COURSE_MINE`` says so, and wherever nothing is kept of a learner: tests, the builder, marking."""
    return os.environ.get("COURSE_MINE", "").strip().lower() in _OFF or store().path is None


def lessons_folder() -> Path:
    """The folder that ``course lab`` opens for this learner.

    Learners of one account, whom ``COURSE_HOME`` tells apart, have one each even where all could write the clone.

    Raises:
        ValueError: There is no folder that could be theirs.
    """
    from course_lib.lab.folder import default_folder, find_place

    if os.environ.get("COURSE_HOME") and not os.environ.get("COURSE_FOLDER", "").strip():
        return default_folder()
    try:
        return find_place().folder
    except RuntimeError as error:  # a user without a home
        raise ValueError(f"{error}; COURSE_FOLDER may name a folder for your lessons") from None


def mine_folder() -> Path:
    """The folder of the package. It may not exist yet. Raises ``ValueError`` as ``lessons_folder``."""
    return lessons_folder() / FOLDER


def shown_path(path: Path) -> str:
    """A path for sentences: below the home with a ``~``."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
