"""Versions of dicts: whether any of many namespaces has changed, in a tenth of a millisecond for 30,000 names.

To compare dictionaries by their values counts a reference to each value up and down again. In a rank, whose memory is
shared with the process that it was forked from, each of these counts copies a page. So the version is asked that
CPython keeps in each dict: another number after each change. It stands in the dict itself, which is held here, so
nothing is read that may be gone. Where a Python has no such version (3.14), the values are compared.

Source: CPython 3.11 to 3.13, Include/cpython/dictobject.h (PyDictObject, ma_version_tag).
"""

from __future__ import annotations

import ctypes
import operator
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any

__all__ = ["Tables"]

_VERSION_BYTES = 8
_LOOKED_AT_AT_ONCE = 128 * _VERSION_BYTES  # few have changed, and most of these blocks are equal as a whole
_VERSION_AT = 3 * ctypes.sizeof(ctypes.c_void_p)  # in a dict: after its count of references, its type and its length


class Tables:
    """``changed()`` says which of ``namespaces`` are not what they were at the last look; the first look is here."""

    def __init__(self, namespaces: Sequence[dict[str, Any]], *, by_version: bool | None = None) -> None:
        self._namespaces = list(namespaces)  # held: what stands at these addresses stays there
        self._by_version = _has_versions() if by_version is None else by_version
        if self._by_version:
            self._versions = [_version(namespace) for namespace in self._namespaces]
            self._seen = self._read()
        else:
            self._copies = list(map(_Copy, self._namespaces))

    def changed(self) -> list[int]:
        """The numbers of the namespaces that have changed; from now on they count as they are."""
        if not self._by_version:
            return self._changed_copies()
        now, seen = self._read(), self._seen
        self._seen = now
        if now == seen:
            return []
        return [
            at // _VERSION_BYTES
            for start in range(0, len(now), _LOOKED_AT_AT_ONCE)
            if now[start : start + _LOOKED_AT_AT_ONCE] != seen[start : start + _LOOKED_AT_AT_ONCE]
            for at in range(start, min(start + _LOOKED_AT_AT_ONCE, len(now)), _VERSION_BYTES)
            if now[at : at + _VERSION_BYTES] != seen[at : at + _VERSION_BYTES]
        ]

    def _read(self) -> bytes:
        return b"".join(self._versions)

    def _changed_copies(self) -> list[int]:
        changed = [i for i, copy in enumerate(self._copies) if not copy.is_like(self._namespaces[i])]
        for number in changed:
            self._copies[number] = _Copy(self._namespaces[number])
        return changed


class _Copy:
    """The names of a namespace and what they stood for, to be compared as objects, however those compare themselves."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._names, self._values = list(namespace), list(namespace.values())

    def is_like(self, namespace: dict[str, Any]) -> bool:
        names, values = list(namespace), list(namespace.values())
        return names == self._names and all(map(operator.is_, values, self._values))


def _version(namespace: dict[str, Any]) -> Any:
    """Eight bytes, as they are at any moment: the version of this dict."""
    return (ctypes.c_char * _VERSION_BYTES).from_address(id(namespace) + _VERSION_AT)


def _has_versions() -> bool:
    """Whether this Python keeps a version in a dict: by what it says of itself, then by a trial."""
    usual = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info < (3, 14)
    if not usual or sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount"):
        return False
    trial = {f"name_{number}": object() for number in range(20)}
    tables = Tables([{"other": 1}, trial], by_version=True)
    seen = [tables.changed() == []]
    trial["name_7"] = object()
    seen.append(tables.changed() == [1])
    del trial["name_8"]
    seen.append(tables.changed() == [1])
    trial["new"] = object()
    seen.append(tables.changed() == [1])
    trial |= {f"more_{number}": 0 for number in range(100)}
    seen.append(tables.changed() == [1] and tables.changed() == [])
    return all(seen)
