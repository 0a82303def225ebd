"""The check of a lesson on what stands in the learner's package now: at the learner's word, or by pytest."""

from __future__ import annotations

from pathlib import Path

from course_lib.base.paths import data_dir
from course_lib.forms.show import show
from course_lib.learn.checks.checking import judged
from course_lib.learn.display.verdict import Verdict
from course_lib.learn.records.store import Store, record, store
from course_lib.mine.ledger import kept_of, note_passed, own_events
from course_lib.mine.place import is_off, mine_folder
from course_lib.mine.source.load import made
from course_lib.mine.source.package import CannotLoadError, read_module, version_of
from course_lib.mine.source.statements import statements_of
from course_lib.mine.table import ENTRIES, LibraryEntry, entry_of, exercise_of

__all__ = ["check_again", "kept_names", "verdict_of"]

_NEVER = (
    "No check of yours has passed {exercise} so far, so the course runs nothing of {file}: it may be somebody else's. "
    'Write yours in a cell of the lesson, and `check("{exercise}", ...)` keeps it.'
)
_OFF = "Nothing is kept of you here (COURSE_MINE or COURSE_PROGRESS says so), so there is nothing to check again."


def check_again(name: str) -> Verdict:
    """Run the check on ``mine.NAME`` as its file has it now. If it passes, lessons take it from here on.

    For a build the name may be that of a step, which is then the check; else it is the step from which lessons use it.
    Raises ``ValueError`` for a name that the library does not have.
    """
    entry = entry_of(name)
    exercise = name if name in entry.exercises else entry.exercise
    if is_off():
        verdict = Verdict(exercise, "blocked", _OFF)
    else:
        verdict, digest = _tried(entry, mine_folder(), store(), exercise)
        if verdict.status != "blocked":
            record("check", exercise, status=verdict.status, mistake=verdict.mistake)
        if verdict.passed:
            note_passed(entry, exercise, digest)
    show(verdict)
    return verdict


def verdict_of(name: str, test_file: str) -> Verdict:
    """The verdict on a function of the package in which ``test_file`` lies. For pytest: it writes nothing down."""
    entry, folder = entry_of(name), Path(test_file).resolve().parent
    return _tried(entry, folder, Store(data_dir() / "progress.jsonl"), entry.exercise)[0]


def kept_names(test_file: str) -> list[str]:
    """The functions of the course's table that the package has, by its text alone."""
    return [entry.name for entry in ENTRIES if _has(Path(test_file).resolve().parent, entry)]


def _has(folder: Path, entry: LibraryEntry) -> bool:
    try:
        return any(entry.name in one.binds for one in statements_of(read_module(folder, entry.module)))
    except FileNotFoundError:
        return False
    except (CannotLoadError, SyntaxError):
        return True  # its test says what is wrong


def _tried(entry: LibraryEntry, folder: Path, place: Store, exercise: str) -> tuple[Verdict, str]:
    """The verdict of this check, and the digest of what was tried."""
    if not kept_of(entry.exercise, own_events(place)).passed:
        return Verdict(exercise, "blocked", _NEVER.format(exercise=entry.exercise, file=entry.file)), ""
    try:
        version = version_of(folder, entry.module, entry.name)
        function = made(version)
    except FileNotFoundError:
        gone = f"{entry.file} is gone. Run the cell of your answer and its check, and it is kept anew."
        return Verdict(exercise, "blocked", gone), ""
    except CannotLoadError as error:
        return Verdict(exercise, "blocked", f"{str(error)[:1].upper()}{str(error)[1:]}."), ""
    return judged(exercise_of(entry, exercise), function), version.digest
