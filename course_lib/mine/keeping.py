"""``check`` as lessons call it: the verdict, and where it is a pass, the answer kept in the learner's own library."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from course_lib.learn.checks.checking import check as plain_check
from course_lib.learn.checks.checking import checked, judged
from course_lib.learn.display.verdict import Verdict
from course_lib.mine.files import put
from course_lib.mine.ledger import furthest_step, kept_of, note_passed
from course_lib.mine.place import is_off, mine_folder, shown_path
from course_lib.mine.source.gather import gathered
from course_lib.mine.source.load import made
from course_lib.mine.source.package import CannotLoadError, Version, version_of
from course_lib.mine.source.piece import AnswerSource, NotKeptError
from course_lib.mine.table import LibraryEntry, entry_of_exercise, exercise_of, step_words

__all__ = ["check", "keep"]


def check(name: str, answer: Any = ...) -> Verdict:
    """Try ``answer`` on the exercise of this name; show the verdict and return it. Never raises.

    ``answer`` is what the exercise asks for: a function (without calling it), a class, or a value. It meets
    copies of every input, has a time limit, and leaves random states as they were. A function or class that later
    lessons can run on is kept when it passes, as source in a folder ``mine`` beside your lessons.
    """
    entry = entry_of_exercise(name)
    if entry is None:
        return plain_check(name, answer)
    verdict = checked(exercise_of(entry, name), answer)
    if verdict.passed and name in entry.exercises:
        try:
            said = keep(entry, answer, name)
        except Exception as error:  # whatever comes of a learner's folder, the verdict stands
            said = f"Your answer could not be kept for later lessons ({type(error).__name__}: {error})."
        if said:
            print(said)
    return verdict


def keep(entry: LibraryEntry, answer: Any, exercise: str = "") -> str:
    """Keep an answer that has just passed; a sentence on what was done, or "" where there is nothing to say.

    ``exercise`` is what it has passed: the entry's own, or a later step of its build. A version that has passed a later
    step stays where it is.
    """
    exercise = exercise or entry.exercise
    if is_off():
        return ""
    try:
        folder = mine_folder()
        piece = gathered(answer)
        if ahead := _standing_ahead(entry, folder, piece, exercise):
            return ahead
        copy = put(folder, entry, piece)
        version = version_of(folder, entry.module, entry.name)
        _need_the_same(entry, piece, version, exercise)
    except NotKeptError as error:
        return f"Your answer was not kept for later lessons: {error}"
    except (CannotLoadError, ValueError) as error:
        return f"Your answer was not kept for later lessons: {error}."
    is_new = version.digest not in kept_of(exercise).passed
    note_passed(entry, exercise, version.digest)
    if not (is_new or copy):
        return ""
    return _said(entry, shown_path(folder / f"{entry.module}.py"), copy, furthest_step(entry, version.digest))


def _standing_ahead(entry: LibraryEntry, folder: Path, piece: AnswerSource, exercise: str) -> str:
    """A sentence where another version stands there that has passed a later step of the build; else ""."""
    if entry.build is None:
        return ""
    try:
        version = version_of(folder, entry.module, entry.name)
    except (FileNotFoundError, CannotLoadError):
        return ""  # what is to be said of it, writing says
    step = furthest_step(entry, version.digest)
    texts = {_lines(one.text) for one in version.needed[entry.module]}
    is_this = all(one.is_import or _lines(one.text) in texts for one in piece.parts)
    if is_this or not step or entry.build.number_of(step) <= entry.build.number_of(exercise):
        return ""
    return (
        f"{entry.file} stays as it is: the version there has passed {step}, {step_words(entry, step)}, and this one "
        f"{exercise} so far. Once this one passes {step}, it takes its place."
    )


def _need_the_same(entry: LibraryEntry, piece: AnswerSource, version: Version, exercise: str) -> None:
    """Raise where what would run from the file is more than the answer that has passed.

    A name that the answer reads and the notebook did not have may be bound in the file, by whoever wrote that. What
    comes from other files of the package may have changed since the notebook imported it, so it is checked itself.
    """
    passed = {*(_lines(part.text) for part in piece.parts), (f"{entry.name} = {piece.answer}",)}
    for one in version.needed[entry.module]:
        if not isinstance(one.node, ast.Import | ast.ImportFrom) and _lines(one.text) not in passed:
            names = " and ".join(f"`{name}`" for name in sorted(one.binds))
            raise NotKeptError(
                f"{entry.file} has something of its own under {names}, a name that your answer uses and the notebook "
                "does not have. Define it in a cell, or rename it there, then run this check again."
            )
    if len(version.needed) > 1 and not judged(exercise_of(entry, exercise), made(version)).passed:
        raise NotKeptError(
            "it imports functions from mine/, and mine/ now holds another version of them. With that version "
            f"{exercise} does not pass. Restart the kernel, so that it imports the new version, and run this check "
            "again."
        )


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())


def _said(entry: LibraryEntry, path: str, copy: str, step: str) -> str:
    before = f" What it replaces there is mine/{copy}." if copy else ""
    how_far = f" It has passed {step}, {step_words(entry, step)}." if entry.build is not None else ""
    return f"Kept in {path}: from here on `mine.{entry.name}` is yours.{how_far}{before}"
