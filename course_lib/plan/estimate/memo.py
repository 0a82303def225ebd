"""What layouts of one search share is worked out once: most of them differ in one setting from their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["Memo"]

_Found = TypeVar("_Found")


class Memo:
    """Results by key, of one job on one cluster with one set of constants and one program: a key names the rest."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], object] = {}

    def get(self, key: tuple[object, ...], make: Callable[[], _Found]) -> _Found:
        """What ``make`` gave for this key the first time. A key begins with the name of what is made."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = make()
        return found  # type: ignore[return-value]
