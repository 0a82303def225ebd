"""Everybody's events, from the files in some folders; what is no progress file of this course is told and left out.

A folder is one that learners share into, a ``COURSE_HOME``, or one of several ``COURSE_HOME``s. Nothing is written or
mended here, links are not followed, and a file of which only some lines can be read counts with these. Every text that
leaves here, of an event or of a file's name, has been through ``foreign_text``: nobody's file steers a terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.base.foreign_text import cleaned, one_line
from course_lib.base.named_file import NotPlainError, bytes_of
from course_lib.classroom.share.shared import FORMAT, clean_alias, number_of

__all__ = ["Gathered", "Learner", "SharedReader"]

_KINDS = {"check", "hint", "solution", "quiz", "guess", "predict", "bet", "problem", "trial", "reset", "kept", "slow"}
_NAME = re.compile(r"\d\d\.\w{1,60}", re.ASCII)
_MOST_BYTES = 1 << 24
_DEEPEST = 3  # folders within folders: HOMES/anna/data
_MOST_FILES = 2000

Event = dict[str, Any]


@dataclass(frozen=True)
class Learner:
    """One learner: what the board calls them, a word that tells them apart, and their events in order."""

    label: str
    word: str
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Gathered:
    """The learners, and for each file that is not counted whole its path below the folder and why."""

    learners: tuple[Learner, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    half: tuple[tuple[str, str], ...] = ()


class ForeignFile(ValueError):
    """A file that is no progress file of this course; the text says why."""


@dataclass
class SharedReader:
    """Reads some folders, again and again; a file that cannot be read for a moment counts as it was before."""

    folders: Sequence[Path]
    _before: dict[Path, Learner] = field(default_factory=dict)

    def gather(self) -> Gathered:
        """Everybody who shares now. Raises ``ValueError`` for a folder that is not there."""
        found: dict[Path, Learner] = {}
        skipped: list[tuple[str, str]] = []
        half: list[tuple[str, str]] = []
        for folder in self.folders:
            if not folder.is_dir():
                raise ValueError(f"{folder} is no folder; name the one that the class shares its progress into")
            for path in _files(folder, skipped):
                place = one_line(path.relative_to(folder).as_posix())
                try:
                    found[path], damaged = _learner(path, place)
                    if damaged:
                        lines = "1 line" if damaged == 1 else f"{damaged} lines"
                        half.append((place, f"{lines} could not be read; the others count"))
                except FileNotFoundError:
                    continue  # taken back since the folder was listed
                except OSError as error:
                    why = error.strerror or type(error).__name__
                    if path in self._before:
                        found[path] = self._before[path]
                        half.append((place, f"{why}; it counts as it was before"))
                    else:
                        skipped.append((place, why))
                except ForeignFile as error:
                    skipped.append((place, str(error)))
        self._before = found
        return Gathered(_labelled(_newest(found.values())), tuple(skipped), tuple(half))


def _files(folder: Path, skipped: list[tuple[str, str]]) -> Iterator[Path]:
    """The files that may be somebody's progress, in a fixed order. A file beside them of another kind is told."""
    count = 0
    for here, folders, files in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < _DEEPEST else []
        for name in sorted(files):
            if name.startswith(".") or "-damaged-" in name or name.endswith((".new", ".lock")):
                continue
            if not name.endswith(".jsonl"):
                if depth == 0:
                    skipped.append((one_line(name), "its name does not end in .jsonl"))
                continue
            count += 1
            if count > _MOST_FILES:
                skipped.append((one_line(folder), f"more than {_MOST_FILES} files; the rest was not read"))
                return
            yield Path(here) / name


def _bytes_of(path: Path) -> bytes:
    """The bytes of a plain file: a link, a pipe or a device of somebody's is not opened, or not read."""
    try:
        return bytes_of(path, most_bytes=_MOST_BYTES, links=False)
    except NotPlainError as error:
        raise ForeignFile(str(error.strerror)) from None


def _learner(path: Path, place: str) -> tuple[Learner, int]:
    from course_lib.learn.records.store import parse

    events, damaged = parse(_bytes_of(path))
    head = events[0] if events and events[0]["event"] == "shared" else {}
    kind = head.get("format", FORMAT)
    if isinstance(kind, bool) or not isinstance(kind, int):
        raise ForeignFile(f"its format is {one_line(kind, 20)!r}, which is no number")
    if kind > FORMAT:
        raise ForeignFile(
            f"it was shared by a newer course (format {kind}, and this course reads {FORMAT}); update this one"
        )
    ours = tuple(cleaned(event) for event in events if event["event"] in _KINDS and _NAME.fullmatch(event["name"]))
    if not ours and not head:
        raise ForeignFile("no line in it is an event of this course")
    return Learner(_alias(head), str(head.get("id") or place), ours), damaged


def _alias(head: Event) -> str:
    try:
        return clean_alias(str(head.get("name") or "")[:200])
    except ValueError:
        return clean_alias(str(head["name"])[:20])


def _newest(learners: Iterable[Learner]) -> list[Learner]:
    """One of each learner: whoever shares into two folders counts once, by the file that was written to last."""
    newest: dict[str, Learner] = {}
    for one in learners:
        other = newest.get(one.word)
        if other is None or _standing(one) > _standing(other):
            newest[one.word] = one
    return list(newest.values())


def _standing(one: Learner) -> tuple[str, int]:
    return max((str(event.get("time", "")) for event in one.events), default=""), len(one.events)


def _labelled(learners: list[Learner]) -> tuple[Learner, ...]:
    """By name: an alias, or four digits. The second with the same gets a letter."""
    seen: dict[str, int] = {}
    labelled = []
    for one in sorted(learners, key=lambda one: (one.label.casefold() or "~", one.word)):
        label = one.label or str(number_of(one.word))
        seen[label.casefold()] = count = seen.get(label.casefold(), 0) + 1
        labelled.append(Learner(label if count == 1 else f"{label} ({count})", one.word, one.events))
    return tuple(sorted(labelled, key=lambda one: (one.label[0].isdigit(), one.label.casefold())))
