"""Marks what is sent while a strategy is built: it belongs to no step, and the communication meter counts it apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["is_under_construction", "under_construction"]

_is_on: ContextVar[bool] = ContextVar("under_construction", default=False)


@contextmanager
def under_construction() -> Iterator[None]:
    """In this block, in this thread: messages of a strategy that is being built."""
    token = _is_on.set(True)
    try:
        yield
    finally:
        _is_on.reset(token)


def is_under_construction() -> bool:
    return _is_on.get()
