"""The learner's package as a list: what is in it, when it passed, and its source. Files are read as text alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.mine.ledger import kept_of, own_events
from course_lib.mine.source.package import CannotLoadError, Version, version_of
from course_lib.mine.table import ENTRIES, LibraryEntry

__all__ = ["ListedFunction", "listed"]

_AS_PASSED = "as it passed"
_CHANGED = "changed since it passed"
_UNKNOWN = "no pass of it is known"
_SLOW = "took too long on a page"


@dataclass(frozen=True)
class ListedFunction:
    """One function of a package; ``when`` as the record has it, "" where no pass is known."""

    entry: LibraryEntry
    when: str
    state: str
    source: str  # with what it needs of its package; "" where that cannot be read
    digest: str = ""  # of what stands there; "" where that cannot be read

    @property
    def is_as_passed(self) -> bool:
        """Whether lessons take it."""
        return self.state == _AS_PASSED


def listed(folder: Path, events: Iterable[Mapping[str, Any]] | None = None) -> list[ListedFunction]:
    """What the package in ``folder`` has of the course's table, by this learner's record or by other ``events``."""
    known = tuple(own_events() if events is None else events)
    found = (_listed(folder, entry, known) for entry in ENTRIES)
    return [one for one in found if one is not None]


def _listed(folder: Path, entry: LibraryEntry, events: tuple[Mapping[str, Any], ...]) -> ListedFunction | None:
    kept = kept_of(entry.exercise, events)
    try:
        version = version_of(folder, entry.module, entry.name)
    except FileNotFoundError:
        return ListedFunction(entry, kept.latest, f"{entry.file} is gone", "") if kept.passed else None
    except CannotLoadError as error:
        is_absent = str(error) == f"{entry.file} has no {entry.name}"
        return None if is_absent and not kept.passed else ListedFunction(entry, kept.latest, str(error), "")
    if version.digest in kept.passed:
        state = _SLOW if version.digest in kept.slow else _AS_PASSED
        return ListedFunction(entry, kept.passed[version.digest], state, _source(version), version.digest)
    return ListedFunction(entry, kept.latest, _CHANGED if kept.passed else _UNKNOWN, _source(version), version.digest)


def _source(version: Version) -> str:
    """Its own file first, then the others of its package, each under its name where there are several."""
    order = sorted(version.needed, key=lambda module: module != version.module)
    parts = []
    for module in order:
        texts = "\n\n".join(one.text for one in version.needed[module])
        parts.append(f"# mine/{module}.py\n\n{texts}" if len(order) > 1 else texts)
    return "\n\n\n".join(parts)
