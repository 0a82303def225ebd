"""A number that differs from learner to learner, and stays: it is drawn once, and kept in the learner's record."""

from __future__ import annotations

import getpass
import hashlib
import platform

from course_lib.base.paths import data_dir
from course_lib.learn.records.store import record, store

__all__ = ["number_of", "own_number", "whose"]


def own_number(name: str, below: int) -> int:
    """This learner's number of this name, from 0 up to, and without, ``below``.

    Where nothing is kept of a learner, in solutions and tests, it is the same in every run. Raises ``ValueError`` for a
    ``below`` under 1.
    """
    if not isinstance(below, int) or isinstance(below, bool) or below < 1:
        raise ValueError(f"below={below!r}: give a whole number of at least 1, such as 4 for one of four ranks.")
    kept = store()
    if kept.path is None:
        return number_of(name) % below
    for event in kept.read():
        value = event.get("value")
        if (event["event"], event["name"]) == ("drawn", name) and isinstance(value, int) and 0 <= value < below:
            return value
    value = number_of(f"{whose()} {name}") % below
    record("drawn", name, value=value)
    return value


def whose() -> str:
    """What differs from learner to learner, and stays."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as containers have them
        user = ""
    return f"{user} {data_dir()} {platform.node()}"


def number_of(text: str) -> int:
    """A number that a text alone decides, the same everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
