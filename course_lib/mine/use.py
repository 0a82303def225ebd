"""``mine.NAME``: the learner's function where its check has passed what stands in the file now, else the course's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from course_lib.base.front_end import running_cell
from course_lib.cluster.process.rank_process import current_rank
from course_lib.mine.budget import LIMIT_S, OwnFunction
from course_lib.mine.ledger import furthest_step, kept_of
from course_lib.mine.own_class import OwnClass
from course_lib.mine.place import is_off, mine_folder, shown_path
from course_lib.mine.source.load import made
from course_lib.mine.source.package import CannotLoadError, version_of
from course_lib.mine.table import LibraryEntry, step_words

__all__ = ["OwnChoice", "SentLibrary", "chosen", "day_of", "tell"]


@dataclass(frozen=True)
class OwnChoice:
    """What stands for a name now. ``state``: "yours", "not passed", or why the learner's is not taken, in a word."""

    entry: LibraryEntry
    state: str
    function: Callable[..., Any]
    line: str

    @property
    def is_yours(self) -> bool:
        return self.state == "yours"


def chosen(entry: LibraryEntry) -> OwnChoice:
    """Whose function stands for an entry's name. Nothing runs of a file that no check of this learner has passed."""
    kept = None if is_off() else kept_of(entry.exercise)
    if kept is None or not kept.passed:
        return _courses(entry, "not passed", f"is the course's; once {entry.exercise} has passed, it is yours.")
    again = f'`mine.check_again("{entry.name}")`'
    try:
        folder = mine_folder()
        version = version_of(folder, entry.module, entry.name)
        if version.digest not in kept.passed:
            why = f"what stands in {entry.file} has not passed {entry.exercise}. {again} checks it."
            return _instead(entry, "changed", why)
        if version.digest in kept.slow:
            why = f"yours took over {LIMIT_S:g} s of a page. {again} takes it back into use."
            return _instead(entry, "too slow", why)
        function = made(version)
        if not callable(function):
            raise CannotLoadError(f"{entry.name} in {entry.file} is neither a function nor a class")
    except FileNotFoundError:
        why = f"{entry.file} is gone. Run the check of {entry.exercise} again, and it is kept anew."
        return _instead(entry, "gone", why)
    except (CannotLoadError, ValueError) as error:
        return _instead(entry, "cannot be loaded", f"{error}. Once that is mended, {again} checks it.")
    except Exception as error:  # whatever stands in a file, the page goes on
        return _instead(entry, "cannot be loaded", f"{entry.file} cannot be read ({type(error).__name__}: {error}).")
    step = furthest_step(entry, version.digest)
    when = day_of(kept_of(step).passed[version.digest])
    how_far = f" ({step_words(entry, step)})" if entry.build is not None else ""
    where = (
        f"mine.{entry.name} is yours: {shown_path(folder / entry.module)}.py, which passed {step}{how_far} on {when}."
    )
    if isinstance(function, type):
        line = f"{where} COURSE_MINE=0 takes the course's."
        return OwnChoice(entry, "yours", OwnClass(entry.name, function), line)
    own = OwnFunction(entry.name, version.digest, function, since=kept.passed[version.digest])
    line = f"{where} Its calls may take {LIMIT_S:g} s of a page; COURSE_MINE=0 takes the course's."
    return OwnChoice(entry, "yours", own, line)


def _instead(entry: LibraryEntry, state: str, why: str) -> OwnChoice:
    return _courses(entry, state, f"is the course's here, in the place of yours: {why}")


def _courses(entry: LibraryEntry, state: str, words: str) -> OwnChoice:
    return OwnChoice(entry, state, entry.courses, f"mine.{entry.name} {words}")


def day_of(time: str) -> str:
    """A time of the record as "28 November 2026"; the text itself where it is none."""
    try:
        return f"{datetime.fromisoformat(time).astimezone():%d %B %Y}".lstrip("0")
    except ValueError:
        return time


_told: set[tuple[str, str]] = set()


def tell(choice: OwnChoice) -> None:
    """Say on the page which one it is, once in each cell."""
    key = running_cell(), choice.line
    if key not in _told:
        _told.add(key)
        print(choice.line)


class SentLibrary:
    """The library on a rank: by name the function that the notebook chose, and its line, which rank 0 says once."""

    def __init__(self, choices: Mapping[str, tuple[Callable[..., Any], str]]) -> None:
        self._choices = dict(choices)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        choices = vars(self).get("_choices", {})  # none while pickle makes it
        if name not in choices:
            raise AttributeError(f"mine has no {name!r} on a rank; it has {', '.join(choices)}")
        function, line = choices[name]
        me = current_rank()
        if (me is None or me.rank == 0) and ("", line) not in _told:
            _told.add(("", line))
            print(line)
        return function
