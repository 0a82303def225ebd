"""The packages that learners have built, found below some folders; text alone is read, and no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.base.foreign_text import on_a_page, one_line
from course_lib.base.named_file import bytes_of
from course_lib.learn.records.store import parse
from course_lib.mine.listing import ListedFunction, listed
from course_lib.mine.place import FOLDER

__all__ = ["FoundPackage", "packages_in", "text_lines"]

_DEEPEST = 4  # HOMES/anna/one-model-many-gpus/mine
_MOST = 500
_MOST_BYTES = 1 << 24


@dataclass(frozen=True)
class FoundPackage:
    """A package: where it lies below the folder that was named, and its functions."""

    place: str
    functions: tuple[ListedFunction, ...]


def packages_in(folders: Sequence[Path]) -> list[FoundPackage]:
    """Every package below these folders, or that one of them is. Raises ``ValueError`` for a folder that is none."""
    found = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is no folder; name one that holds learners' folders, or where the class shares")
        for package in _packages(folder):
            place = one_line(package.relative_to(folder).as_posix())
            functions = tuple(listed(package, _events_beside(package)))
            found.append(FoundPackage(one_line(folder.name) if place == "." else place, functions))
    return found


def _packages(folder: Path) -> Iterator[Path]:
    if _is_package(folder):
        yield folder
        return
    count = 0
    for path, names, _ in os.walk(folder):
        here = Path(path)
        names[:] = sorted(name for name in names if not name.startswith(".") and not (here / name).is_symlink())
        if len(here.relative_to(folder).parts) >= _DEEPEST:
            names.clear()
        if here != folder and _is_package(here):
            names.clear()
            count += 1
            yield here
        if count >= _MOST:
            return


def _is_package(folder: Path) -> bool:
    return folder.name == FOLDER and (folder / "test_mine.py").is_file()


def _events_beside(package: Path) -> list[dict[str, Any]]:
    """The record of who has built it, where that lies as in a COURSE_HOME: HOME/data/progress.jsonl."""
    for home in (package.parent.parent, package.parent):
        try:
            return parse(bytes_of(home / "data" / "progress.jsonl", most_bytes=_MOST_BYTES, links=False))[0]
        except OSError:
            continue
    return []


def text_lines(source: str) -> list[str]:
    """A source for a terminal: its lines without anything that could steer it."""
    return [on_a_page(line).expandtabs(4) for line in source.split("\n")]
