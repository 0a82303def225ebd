"""The table: which exercise gives which function of the learner's own library, and what stands in for it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from course_lib.learn import exercises
from course_lib.learn.catalogue.exercise import Exercise

__all__ = ["ENTRIES", "LibraryEntry", "entry_of", "entry_of_exercise", "exercise_of"]

_COURSES = "course_lib.mine.courses"


@dataclass(frozen=True)
class LibraryEntry:
    """A function of the learner's library, ``mine.NAME``, kept when the check of ``exercise`` passes.

    It stands in ``mine/MODULE.py``. The course's, of the same name in ``courses.py``, has the signature by which
    lessons call either; the learner's is called by position, so its parameters may have other names.
    """

    exercise: str
    name: str
    module: str
    says: str  # what it does, for lists

    @property
    def courses(self) -> Callable[..., Any]:
        """The course's function, which stands in for the learner's."""
        return getattr(importlib.import_module(_COURSES), self.name)

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.courses)

    @property
    def file(self) -> str:
        """How sentences call the learner's file."""
        return f"mine/{self.module}.py"


ENTRIES = (
    LibraryEntry("00.share", "my_share", "basics", "the items of one rank, as a range"),
    LibraryEntry("02.ring", "ring_all_reduce", "collectives", "the sum over all ranks, around a ring, in place"),
    LibraryEntry("02.tree", "tree_broadcast", "collectives", "rank 0's tensor on every rank, in place"),
    LibraryEntry("04.gradients", "average_gradients", "data", "every gradient becomes its mean over all ranks"),
    LibraryEntry("04.sampler", "indices_of", "data", "the indices that a rank reads in an epoch"),
    LibraryEntry("05.clip", "clip", "sharded", "gradients of shards scaled by one factor, that of the whole norm"),
    LibraryEntry("07.1f1b", "order_of_stage", "schedules", "what a stage does under 1F1B, as texts"),
    LibraryEntry("10.zigzag", "positions_of", "context", "the positions of a rank, so that work is even"),
)


def entry_of(name: str) -> LibraryEntry:
    """The entry of a function's name. Raises ``ValueError`` with those that there are."""
    for entry in ENTRIES:
        if name in (entry.name, entry.exercise):
            return entry
    offers = ", ".join(f"{entry.name} ({entry.exercise})" for entry in ENTRIES)
    raise ValueError(f"There is no {name!r} in a library of your own; there is {offers}.")


def entry_of_exercise(exercise: str) -> LibraryEntry | None:
    """The entry of an exercise; None where its answer is not kept."""
    return next((entry for entry in ENTRIES if entry.exercise == exercise), None)


@cache  # one object: what is known of its mistakes is kept by it
def exercise_of(entry: LibraryEntry) -> Exercise:
    """The exercise, which does not take the course's stand-in for an answer, by whatever name it is called."""
    exercise = exercises.exercise(entry.exercise)
    return replace(exercise, forbidden=(*exercise.forbidden, f"{_COURSES}.{entry.name}"))
