"""Marks on what is sent, for whoever reads the calls of a run: ``with only_on_gloo(): ...``, in this thread.

Code that knows its back end may start a receive earlier on gloo than it does on NCCL, where that order would deadlock.
Whoever reads the order of its calls must not take it for the order on NCCL: such messages are ``only_on_gloo``. What is
sent while a strategy is built belongs to no step, and the communication meter counts it apart: ``under_construction``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["ScopedFlag", "only_on_gloo", "under_construction"]


class ScopedFlag:
    """Something that is so within a block, in this thread, and not so outside of it."""

    def __init__(self, name: str) -> None:
        self._is_on: ContextVar[bool] = ContextVar(name, default=False)

    @contextmanager
    def __call__(self, is_so: bool = True) -> Iterator[None]:
        token = self._is_on.set(is_so)
        try:
            yield
        finally:
            self._is_on.reset(token)

    @property
    def is_on(self) -> bool:
        """Whether this thread is within such a block."""
        return self._is_on.get()


only_on_gloo = ScopedFlag("only_on_gloo")
under_construction = ScopedFlag("under_construction")
