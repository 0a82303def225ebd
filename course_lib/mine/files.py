"""The files of the learner's package: written whole or not at all, and what is replaced stays beside under its date."""

from __future__ import annotations

import contextlib
import os
import tempfile
from datetime import datetime
from pathlib import Path

from course_lib.mine.place import shown_path
from course_lib.mine.source.merge import merged
from course_lib.mine.source.package import CannotLoadError, read_module
from course_lib.mine.source.piece import AnswerSource, NotKeptError
from course_lib.mine.table import LibraryEntry

__all__ = ["EARLIER", "put"]

EARLIER = "earlier"
_MARK = "One Model, Many GPUs"  # of an __init__.py that the course has written
_TRIES = 3  # where another kernel writes the same file in between
_INIT = '''"""What I have built in the course *One Model, Many GPUs*: each function as it passed its check.

The course puts a function here when its check passes, and writes over nothing: what it replaces goes to `earlier/`.
Change what you like. The lessons take a changed function once it has passed again: `mine.check_again("NAME")`.
"""
'''
_TEST = '''"""The checks of the course on this package, by pytest: `pytest mine`, typed in the folder that holds it."""

import pytest

from course_lib.mine.again import kept_names, verdict_of


@pytest.mark.parametrize("name", kept_names(__file__))
def test_it_passes_the_check_of_its_lesson(name):
    verdict = verdict_of(name, __file__)
    assert verdict.passed, str(verdict)
'''


def put(folder: Path, entry: LibraryEntry, piece: AnswerSource) -> str:
    """Write the piece into its module in ``folder``; the name of the copy of what was replaced, or "".

    Raises ``NotKeptError`` with a sentence where nothing was written.
    """
    try:
        _need_own_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("__init__.py", _INIT), ("test_mine.py", _TEST)):
            _write_new(folder / name, text)
        for _ in range(_TRIES):
            found = _text(folder, entry)
            text, replaced = merged(found or _head(entry), piece, entry.name, file=entry.file)
            if text == found:
                return ""
            copy = _set_beside(folder, entry, found) if replaced and found is not None else ""
            if _write_over(folder / f"{entry.module}.py", text, found):
                return copy
        raise NotKeptError(f"another program writes {entry.file} at the same time. Run this check again.")
    except OSError as error:
        where = shown_path(Path(error.filename)) if isinstance(error.filename, str) else shown_path(folder)
        raise NotKeptError(
            f"{where} cannot be written ({error.strerror or type(error).__name__}). COURSE_FOLDER may name a folder "
            "that can; then run this check again."
        ) from None


def _need_own_folder(folder: Path) -> None:
    """Raise for a `mine` that the course has not made: a package or a folder of another purpose."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    init = folder / "__init__.py"
    is_ours = init.is_file() and _MARK in init.read_text(encoding="utf-8", errors="replace")
    if not is_ours and not (folder / "test_mine.py").is_file():
        raise NotKeptError(
            f"{shown_path(folder)} is there already and is not a folder that the course has made. Move it away, then "
            "run this check again."
        )


def _head(entry: LibraryEntry) -> str:
    return f'"""{entry.module}: what I have built, as it passed its checks."""\n'


def _text(folder: Path, entry: LibraryEntry) -> str | None:
    try:
        return read_module(folder, entry.module)
    except FileNotFoundError:
        return None
    except CannotLoadError as error:
        raise NotKeptError(f"{error}, and nothing is written over. Move it away, then run this check again.") from None


def _write_new(path: Path, text: str) -> None:
    """Write a file that is not there; one that is there is the learner's."""
    with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
        file.write(text)


def _set_beside(folder: Path, entry: LibraryEntry, text: str) -> str:
    """Keep what is there as ``earlier/MODULE-DATE.py``, or with a number behind where that is taken."""
    place = folder / EARLIER
    place.mkdir(exist_ok=True)
    day = f"{datetime.now():%Y-%m-%d}"
    for number in range(1, 1000):
        name = f"{entry.module}-{day}{f'-{number}' if number > 1 else ''}.py"
        with contextlib.suppress(FileExistsError):
            with (place / name).open("x", encoding="utf-8") as file:
                file.write(text)
            return f"{EARLIER}/{name}"
    raise NotKeptError(f"{shown_path(place)} holds a thousand versions of today. Move some away, then check again.")


def _write_over(path: Path, text: str, before: str | None) -> bool:
    """Put the whole text there at once, unless the file is no longer what it was when it was read."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        if before is None:
            return _take_name(name, path)
        if path.read_bytes() != before.encode("utf-8"):
            return False
        os.replace(name, path)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _take_name(name: str, path: Path) -> bool:
    try:
        os.link(name, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        os.replace(name, path)
    return True
