"""Hands lessons out into a learner's folder, and a newer edition later, and never writes over work.

A small record beside the notebooks holds the hash of each file's work (`work`) as it was handed out. A file that still
has it was not touched, or only opened, and is replaced by a newer edition. Any other is the learner's, and the newer
edition comes beside it, once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.lab.work import print_of

__all__ = ["RECORD", "Handed", "free_name", "hand_out", "link_or_copy", "remove_link", "write"]

RECORD = ".course-lessons.json"


@dataclass
class Handed:
    """What came into the folder: names of files that are new, renewed, carried over, and (kept, newer) pairs."""

    new: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)


def hand_out(
    folder: Path, editions: Mapping[str, bytes], *, work: Mapping[str, bytes] | None = None, today: str = ""
) -> Handed:
    """Bring a folder up to date with ``editions`` (content by name). Safe to stop, and to repeat.

    ``work`` is what the learner has made of some of them in the clone: it is taken over, beside what the folder has of
    the same lesson already. ``today`` stands in a new name.

    Raises:
        OSError: The folder cannot be written. What it held is as it was.
    """
    handed, day = Handed(), today or time.strftime("%Y-%m-%d")
    with _record(folder) as record:
        for name, content in editions.items():
            _hand_out_one(folder, name, content, (work or {}).get(name), record, handed, day)
        for name, content in (work or {}).items():
            _bring_along(folder, name, content, record, handed, day)
    return handed


def _hand_out_one(
    folder: Path,
    name: str,
    content: bytes,
    work: bytes | None,
    record: dict[str, str],
    handed: Handed,
    day: str,
) -> None:
    file, edition = folder / name, print_of(name, content)
    held = file.read_bytes() if file.is_file() else None
    now = None if held is None else print_of(name, held)
    if now is None:
        write(file, content if work is None else work)
        (handed.new if work is None else handed.carried).append(name)
    elif now == edition:
        pass
    elif record.get(name) in (now, _older_print(held)):
        write(file, content)
        handed.renewed.append(name)
    elif record.get(name) not in (edition, _older_print(content)):
        # Touched, and this edition has not been here.
        _remove_older_beside(folder, name, record)
        beside = free_name(file, f"new edition {day}", content)
        write(beside, content)
        beside_name = beside.relative_to(folder).as_posix()
        record[beside_name] = edition
        handed.beside.append((name, beside_name))
    record[name] = edition


def _bring_along(folder: Path, name: str, content: bytes, record: dict[str, str], handed: Handed, day: str) -> None:
    """Work elsewhere on a lesson that the folder has had already: it comes beside, once."""
    key, work = f"elsewhere: {name}", print_of(name, content)
    is_known = record.get(key) in (work, _older_print(content))
    if not is_known and print_of(name, (folder / name).read_bytes()) != work:
        beside = free_name(folder / name, f"from the clone {day}", content)
        write(beside, content)
        handed.carried.append(beside.relative_to(folder).as_posix())
    record[key] = work


def _remove_older_beside(folder: Path, name: str, record: dict[str, str]) -> None:
    """An edition that lay beside the learner's notebook, was never touched, and is now old itself."""
    stem, suffix = os.path.splitext(name)
    for other in [known for known in record if known.startswith(f"{stem} (new edition ")]:
        file = folder / other
        if not file.is_file() or file.suffix != suffix:
            continue
        held = file.read_bytes()
        if record[other] in (print_of(other, held), _older_print(held)):
            file.unlink()
            del record[other]


def free_name(file: Path, note: str, content: bytes | None = None) -> Path:
    """A name beside ``file`` that says ``note``, and that no other file has; one with this very content may."""
    number = 1
    while True:
        more = "" if number == 1 else f" {number}"
        found = file.with_name(f"{file.stem} ({note}){more}{file.suffix}")
        if not os.path.lexists(found) or (content is not None and found.read_bytes() == content):
            return found
        number += 1


def write(file: Path, content: bytes) -> None:
    """Write a whole file or nothing: a full disk or a stop leaves what was there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(content)
        os.replace(draft, file)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def link_or_copy(course: Path, folder: Path, name: str) -> None:
    """Have the solutions of the course in the folder: by a link that leads to today's.

    A folder of that name which is no link is the learner's and stays; where the system makes no links, files that it
    lacks are copied into it.
    """
    target, place = course / name, folder / name
    if not target.is_dir() or (place.is_symlink() and os.readlink(place) == str(target)):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_link(place)  # the course has moved
    if not place.exists():
        try:
            place.symlink_to(target, target_is_directory=True)
            return
        except (OSError, NotImplementedError):
            place.mkdir()
    for file in target.rglob("*"):
        copy = place / file.relative_to(target)
        if file.is_file() and not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def remove_link(place: Path) -> None:
    """Remove what is a link, so that nothing is written where it leads to; anything else stays."""
    if place.is_symlink():
        place.unlink()


@contextlib.contextmanager
def _record(folder: Path) -> Iterator[dict[str, str]]:
    """The record, read at the start and written at the end, also of a handing out that has failed half-way."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / RECORD
    record: dict[str, str] = {}
    # None yet, or spoilt: then every older file counts as work.
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        kept = json.loads(file.read_text(encoding="utf-8"))["handed out"]
        record = {str(name): str(value) for name, value in kept.items()}
    before = dict(record)
    try:
        yield record
    finally:
        if record != before or not file.exists():
            write(file, (json.dumps({"handed out": record}, indent=1, sort_keys=True) + "\n").encode())


def _older_print(content: bytes | None) -> str | None:
    """What an older course has kept in the record: a hash of all bytes."""
    return None if content is None else hashlib.sha256(content).hexdigest()
