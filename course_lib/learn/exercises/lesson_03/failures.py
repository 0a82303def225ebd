"""Failures of replicas, as the judges of this room hear of them: what a thread dies of, and what an error says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["silent_threads", "words_of"]


@contextmanager
def silent_threads() -> Iterator[list[str]]:
    """What a thread dies of is not printed; the judge tells it."""
    before, died = threading.excepthook, []
    threading.excepthook = lambda told: died.append(f"{told.exc_type.__name__}: {told.exc_value}".rstrip(": "))
    try:
        yield died
    finally:
        threading.excepthook = before


def words_of(error: BaseException | None, with_causes: bool = False) -> Iterator[str]:
    """The texts of an error, its notes and what it groups; and of its causes, where they are asked for."""
    if error is None:
        return
    yield from (str(error), *getattr(error, "__notes__", ()))
    for one in getattr(error, "exceptions", ()):  # of a group
        yield from words_of(one, with_causes)
    if with_causes:
        yield from words_of(error.__cause__ or error.__context__, with_causes)
