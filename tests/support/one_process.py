"""A cluster for tests of what is asked of one, and not of ranks: its first rank is this process, and the only one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any


class InOneProcess:
    """Stands in for ``Cluster``; the function that it is given must not send anything."""

    def __init__(self, world_size: int, **_: Any) -> None:
        self.me = SimpleNamespace(rank=0, world_size=world_size, backend="gloo")

    def __enter__(self) -> InOneProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, function: Callable[..., Any], args: Sequence[Any] = (), **_: Any) -> list[Any]:
        return [function(self.me, *args)]

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        return [function(self.me, *args, **kwargs)]
