"""One thing that a function may change in its process: how it is read, put back, and said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Setting", "refuse", "silent", "switched"]


@dataclass(frozen=True)
class Setting:
    """``describe(value)`` is the end of "rank 1 left ..." for the value found; empty: put back without a word."""

    name: str
    get: Callable[[], Any]
    restore: Callable[[Any], Any]
    describe: Callable[[Any], str]


def silent(_: Any) -> str:
    return ""


def refuse(_: Any) -> None:
    """The ``restore`` of what cannot be put back: such a rank is replaced."""
    raise RuntimeError("nobody but the one who changed it can change it back")


def switched(what: str) -> Callable[[Any], str]:
    return lambda now: f"{what} {now if not isinstance(now, bool) else 'on' if now else 'off'}"
