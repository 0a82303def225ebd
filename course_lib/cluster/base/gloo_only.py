"""Marks messages whose order works on gloo alone, and would deadlock on NCCL.

Code that knows its back end may start a receive earlier on gloo than it does on NCCL. Whoever reads the order of its
calls must not take it for the order on NCCL: such messages are started within ``only_on_gloo``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["is_only_on_gloo", "only_on_gloo"]

_is_on: ContextVar[bool] = ContextVar("only_on_gloo", default=False)


@contextmanager
def only_on_gloo(is_so: bool) -> Iterator[None]:
    """In this block, in this thread: messages stand where another back end would not have them, if ``is_so``."""
    token = _is_on.set(is_so)
    try:
        yield
    finally:
        _is_on.reset(token)


def is_only_on_gloo() -> bool:
    return _is_on.get()
