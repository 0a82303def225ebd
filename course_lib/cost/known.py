"""Sentences for numbers and names that a cost model cannot use."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable

__all__ = ["above_zero", "known", "not_negative"]


def known(what: str, name: str, names: Iterable[str]) -> str:
    """``name`` itself when it is one of ``names``; else ``ValueError`` with all of them and the nearest."""
    names = tuple(names)
    if name not in names:
        near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{what} is {name!r}; this cost model knows {', '.join(names)}.{hint}")
    return name


def above_zero(**values: float) -> None:
    """Raise ``ValueError`` for the first value that is not a number above zero (infinity is one)."""
    for name, value in values.items():
        if not _is_number(value) or value <= 0:
            raise ValueError(f"{name} is {value!r}; it must be a number above zero, if ever so small.")


def not_negative(**values: float) -> None:
    """Raise ``ValueError`` for the first value that is not a finite number of at least zero."""
    for name, value in values.items():
        if not _is_number(value) or value < 0 or math.isinf(value):
            raise ValueError(f"{name} is {value!r}; it must be zero or more. The nearest that works is 0.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
