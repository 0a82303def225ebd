"""On which earlier parts each part builds: one table. Pages, paths, the start page and placement read it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["PREREQUISITES", "all_prerequisites", "missing_prerequisites"]

PREREQUISITES: dict[str, tuple[str, ...]] = {
    "00": (),
    "01a": ("00",),
    "01b": ("01a",),
    "01c": ("01a", "01b"),
    "02a": ("00",),
    "02b": ("02a",),
    "02c": ("02a",),
    "02d": ("02a", "02b"),
    "03a": ("01a",),
    "03b": ("03a",),
    "03c": ("03a", "03b"),
    "04a": ("02a",),
    "04b": ("04a",),
    "04c": ("04a", "04b"),
    "04d": ("02d", "04a", "04b"),
    "04e": ("04a",),
    "04f": ("04b",),
    "05a": ("04a",),
    "05b": ("01a", "05a"),
    "05c": ("05a", "05b"),
    "05d": ("04d", "05a", "05b"),
    "05e": ("05b",),
    "05f": ("05a",),
    "05g": ("05b", "05f"),
    "05h": ("05d",),
    "06a": ("02a",),
    "06b": ("06a",),
    "07a": ("01c", "06a"),
    "07b": ("07a",),
    "07c": ("07a", "07b"),
    "07d": ("07b", "07c"),
    "07e": ("07b",),
    "08a": ("02a",),
    "08b": ("08a",),
    "08c": ("08a", "08b"),
    "08d": ("08a", "08b", "08c"),
    "08e": ("08a", "08b", "08c"),
    "09a": ("04a", "05a", "07a", "08a"),
    "09b": ("05b", "06a", "08b", "09a"),
    "09c": ("09a", "09b"),
    "09d": ("09a", "09b"),
    "09e": ("05f", "09b", "09c", "09d"),
    "10a": ("02a", "08b"),
    "10b": ("10a",),
    "10c": ("01c", "02a", "04a"),
    "10d": ("10c",),
    "10e": ("02c", "10c"),
    "10f": ("08c", "09a", "10c", "10d"),
    "10g": ("10b",),
    "10h": ("10a", "10b"),
    "10i": ("10c", "10d"),
    "11a": ("05a", "07a", "08c", "09a"),
    "11b": ("02a", "04a", "07a", "08b", "09a"),
    "11c": ("04a", "07a", "08a", "09a"),
    "11d": ("11a", "11b"),
    "11e": ("11a", "11b"),
    "12a": ("00", "02a", "05d"),
    "12b": ("02c", "04c", "12a"),
    "12c": ("12a", "12b"),
    "12d": ("02b", "04c", "12a"),
    "12e": ("04c", "12c"),
    "12f": ("04c", "12b"),
    "13a": ("04a", "06a"),
    "13b": ("03a", "05a", "13a"),
    "13c": ("03a", "04c", "13a"),
    "13d": ("13a",),
    "14a": ("05a", "07d", "09a", "09d", "11b"),
    "14b": ("06b", "07b", "09a", "14a"),
}
"""The parts without which a part cannot be followed, each in the order of the course. Those of those are not repeated,
but where a part names them itself."""


def all_prerequisites(label: str) -> set[str]:
    """The parts on which a part builds, and those on which they build. Raises ``KeyError`` for a part not listed.

    Raises ``ValueError`` where the table goes round in a circle, with the parts on it.
    """
    return _collect(label, ())


def missing_prerequisites(parts: Sequence[str]) -> dict[str, list[str]]:
    """For the parts of a path, in its order: what each builds on that the path has not visited before it."""
    missing = {part: [one for one in PREREQUISITES.get(part, ()) if one not in parts[:place]]
               for place, part in enumerate(parts)}  # fmt: skip
    return {part: labels for part, labels in missing.items() if labels}


def _collect(label: str, way: tuple[str, ...]) -> set[str]:
    if label in way:
        raise ValueError(f"the prerequisites go round in a circle: {' -> '.join((*way, label))}")
    direct = PREREQUISITES[label]
    return {*direct, *(far for one in direct for far in _collect(one, (*way, label)))}
