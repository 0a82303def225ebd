"""Who watches a strategy at work: anything that has ``span``, such as ``course_lib.meter.Timeline``, or nobody."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

__all__ = ["Spans", "Unwatched"]


class Spans(Protocol):
    """Takes the time of a block of code, under a name."""

    def span(self, name: str, *, kind: str = "compute") -> AbstractContextManager[Any]: ...


class Unwatched:
    """Nobody watches: a span costs nothing and is kept nowhere."""

    def span(self, name: str, *, kind: str = "compute") -> AbstractContextManager[Any]:
        return nullcontext()
