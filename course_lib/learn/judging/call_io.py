"""Arguments and result of an answer, looked at before and after a call, whoever makes the call."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

from course_lib.learn.judging.compare import Difference, short
from course_lib.learn.judging.failure import NotAnAnswer
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.sandbox.state_guard import right_but

__all__ = ["CHANGED", "in_words", "need_callable", "remembered", "settled"]

CHANGED = "changed-an-argument"  # a kind of difference

_LONGEST = 10_000  # items taken from a generator that a learner returns


def remembered(answer: Any, args: tuple[Any, ...]) -> Kept:
    """The arguments by the names that the answer gives them, or by their places."""
    return Kept(**dict(zip(_names_of(answer, len(args)), args, strict=True)))


def _names_of(answer: Any, count: int) -> list[str]:
    try:
        names = list(inspect.signature(answer).parameters)[-count:] if count else []
    except (TypeError, ValueError):
        names = []
    plain = len(names) == count and all(name.isidentifier() for name in names)
    return names if plain else [f"input {place}" for place in range(1, count + 1)]


def in_words(change: str) -> str:
    return Difference(right_but(f"changed what it was given: {change}"), CHANGED) if change else ""


def need_callable(answer: Any) -> None:
    """Raises ``NotAnAnswer``."""
    if not callable(answer):
        raise NotAnAnswer(f"Give the function itself, without calling it. What came is {short(answer)}.")


def settled(got: Any) -> Any:
    """A generator becomes the list of its items, so that it can be looked at more than once."""
    return list(itertools.islice(got, _LONGEST)) if isinstance(got, Iterator) else got
