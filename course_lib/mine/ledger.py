"""What this learner's checks have passed: digests in the learner's own progress, which no copied folder brings along.

A "kept" event says that the check passed the version of this digest; a "slow" event that its calls took more of a page
than they may, until a check passes it again. No code stands there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from course_lib.learn.records.store import Store, record, store
from course_lib.mine.table import LibraryEntry

__all__ = ["PassedVersions", "furthest_step", "kept_of", "note_kept", "note_passed", "note_slow", "own_events"]


@dataclass(frozen=True)
class PassedVersions:
    """What is known of one exercise: for each digest when it passed last, and whether it was too slow since."""

    passed: Mapping[str, str]  # ISO times
    slow: frozenset[str] = frozenset()

    @property
    def latest(self) -> str:
        """When the last one passed; "" where none did."""
        return max(self.passed.values(), default="")


def note_kept(exercise: str, digest: str) -> None:
    """Write down that the check has passed this version."""
    record("kept", exercise, digest=digest)


def note_passed(entry: LibraryEntry, exercise: str, digest: str) -> None:
    """Write down that this version has passed an exercise of the entry's. A later step has passed the entry's own."""
    for name in dict.fromkeys((entry.exercise, exercise)):
        note_kept(name, digest)


def furthest_step(entry: LibraryEntry, digest: str) -> str:
    """The last step of a build that this version has passed, or the entry's own exercise; "" for none."""
    return next((name for name in reversed(entry.exercises) if digest in kept_of(name).passed), "")


def note_slow(exercise: str, digest: str) -> None:
    """Write down that this version took more of a page than it may."""
    record("slow", exercise, digest=digest)


def kept_of(exercise: str, events: Iterable[Mapping[str, Any]] | None = None) -> PassedVersions:
    """What the learner's record tells of an exercise. Only its own events count, whatever lies in a folder."""
    passed: dict[str, str] = {}
    slow: set[str] = set()
    for event in own_events() if events is None else events:
        digest = event.get("digest")
        if event["name"] != exercise or not isinstance(digest, str):
            continue
        if event["event"] == "kept":
            passed[digest] = str(event.get("time", ""))
            slow.discard(digest)
        elif event["event"] == "slow":
            slow.add(digest)
    return PassedVersions(passed, frozenset(slow))


def own_events(place: Store | None = None) -> tuple[dict[str, Any], ...]:
    """The events that concern what is kept, of this learner's store or of another that the caller names."""
    path = (place or store()).path
    if path is None:
        return ()
    try:
        about = path.stat()
    except OSError:
        return ()
    return _events(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=4)  # a page asks again and again, and the file grows by a line a check
def _events(path: Path, *_written: int) -> tuple[dict[str, Any], ...]:
    return tuple(event for event in Store(path).read() if event["event"] in ("kept", "slow"))
