"""Packages whose names load when they are first used, so that what is data can be read without torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["loads_when_used"]


def loads_when_used(package: str, home_of: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, by the module of it in which each name lives, or which it is.

    A name that it does not have raises AttributeError with those that it has.
    """

    offers = ", ".join(sorted(home_of))  # once: whoever looks for a name in all modules asks here for many

    def getattr_(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"{package} has no name {name!r}; it offers {offers}")
        home = importlib.import_module(f"{package}.{home_of[name]}")
        is_home = home_of[name].rpartition(".")[2] == name and not hasattr(home, name)
        value = home if is_home else getattr(home, name)
        setattr(sys.modules[package], name, value)  # the next use finds it at once
        return value

    return getattr_, lambda: sorted(home_of)
