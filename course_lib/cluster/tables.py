"""Whether any of many namespaces has changed since the last look, in a tenth of a millisecond for 30,000 names.

To compare dictionaries by ``==`` counts a reference to each value up and down again. In a rank, whose memory is
shared with the process that it was forked from, each of these counts copies a page. So the memory in which CPython
keeps the pairs of name and value is compared as bytes. Where that memory does not look as expected (another Python),
dictionaries are compared.

Source: CPython, Include/cpython/dictobject.h and Objects/dictobject.c (PyDictObject, _dictkeysobject), alike from 3.11
to 3.14.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any

__all__ = ["Tables"]

_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
_TABLE_AT = (
    4 * _POINTER_BYTES
)  # in a dict: after its count of references, its type, its length and its version
_SKIPPED_BYTES = 2 * _POINTER_BYTES  # at the table's begin: its count of references, and a version for caches
_GC_BYTES = 2 * _POINTER_BYTES  # which sys.getsizeof counts in front of every container


class Tables:
    """``changed()`` says which of ``namespaces`` are not what they were at the last look; the first look is here."""

    def __init__(self, namespaces: Sequence[dict[str, Any]], *, raw: bool | None = None) -> None:
        self._namespaces = list(namespaces)
        self._is_raw = _looks_as_expected() if raw is None else raw
        if not self._is_raw:
            self._copies = [dict(namespace) for namespace in self._namespaces]
            return
        self._places = [_place(namespace) for namespace in self._namespaces]
        self._tables = [_table(namespace) for namespace in self._namespaces]
        self._remember()

    def changed(self) -> list[int]:
        """The numbers of the namespaces that have changed; from now on they count as they are."""
        if not self._is_raw:
            return self._changed_copies()
        # First where the tables are: one that has moved has left memory that may be gone.
        if b"".join(self._places) == self._seen_places and b"".join(self._tables) == self._seen:
            return []
        changed = []
        pairs = zip(self._namespaces, self._places, self._tables, strict=True)
        for number, (namespace, place, table) in enumerate(pairs):
            if bytes(place) != self._place_of[number] or bytes(table) != self._table_of[number]:
                changed.append(number)
                self._tables[number] = _table(namespace)
        self._remember()
        return changed

    def _remember(self) -> None:
        self._place_of, self._table_of = list(map(bytes, self._places)), list(map(bytes, self._tables))
        self._seen_places, self._seen = b"".join(self._place_of), b"".join(self._table_of)

    def _changed_copies(self) -> list[int]:
        changed = []
        for number, (namespace, copy) in enumerate(zip(self._namespaces, self._copies, strict=True)):
            if not _is_same(namespace, copy):
                changed.append(number)
                self._copies[number] = dict(namespace)
        return changed


def _is_same(namespace: dict[str, Any], copy: dict[str, Any]) -> bool:
    return namespace.keys() == copy.keys() and all(value is copy[name] for name, value in namespace.items())


def _place(namespace: dict[str, Any]) -> Any:
    """Eight bytes, as they are at any moment: where the table of this dict is."""
    return (ctypes.c_char * _POINTER_BYTES).from_address(id(namespace) + _TABLE_AT)


def _table(namespace: dict[str, Any]) -> Any:
    """The bytes of the table, as they are at any moment; not to be read once the table has moved."""
    size_bytes = sys.getsizeof(namespace) - dict.__basicsize__ - _GC_BYTES - _SKIPPED_BYTES
    address = ctypes.c_size_t.from_address(id(namespace) + _TABLE_AT).value
    return (ctypes.c_char * max(0, size_bytes)).from_address(address + _SKIPPED_BYTES)


def _looks_as_expected() -> bool:
    """Whether this Python keeps a dict as described above: by what it says of itself, then by a trial."""
    usual = (
        sys.implementation.name == "cpython" and _POINTER_BYTES == 8 and (3, 11) <= sys.version_info < (3, 15)
    )
    if not usual or sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount"):
        return False
    trial = {f"name_{number}": object() for number in range(20)}
    tables = Tables([{"other": 1}, trial], raw=True)
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
