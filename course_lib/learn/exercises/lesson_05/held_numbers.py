"""Numbers that an object keeps outside of tensors: in NumPy arrays, bytes and lists of floats."""

from __future__ import annotations

import gc
import io
import sys
from array import array
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

__all__ = ["numbers_held"]

_MOST_THINGS = 50_000
_BYTES_A_NUMBER = 8
_HAVE_NOTHING = (ModuleType, CodeType, str, int, float, complex)


def numbers_held(roots: Iterable[Any], but: Iterable[Any] = ()) -> int:
    """How many numbers can be reached from ``roots``, past ``but``; eight bytes of ``bytes`` count as one.

    Of classes and functions only those are gone through that a person wrote in a cell, or that are roots.
    """
    seen = {id(thing): thing for thing in but}
    roots = [*roots, *(kind for root in roots for kind in _kinds(root))]
    own = {id(root) for root in roots}
    todo, total = list(roots), 0
    while todo and len(seen) < _MOST_THINGS:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, _HAVE_NOTHING):
            continue
        seen[id(thing)] = thing  # held, so that nothing else takes its id
        total += _numbers(thing)
        todo += _beneath(thing, id(thing) in own)
    return total


def _kinds(thing: Any) -> Iterator[type]:
    for kind in (thing if isinstance(thing, type) else type(thing)).__mro__:
        if kind.__module__.partition(".")[0] not in ("torch", "builtins"):
            yield kind


def _numbers(thing: Any) -> int:
    """Those of this object itself. A window on other memory has none: that memory is met behind it."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(thing, numpy.ndarray):
        return thing.size if thing.base is None else 0
    if isinstance(thing, bytes | bytearray):
        return len(thing) // _BYTES_A_NUMBER
    if isinstance(thing, io.BytesIO):
        return thing.getbuffer().nbytes // _BYTES_A_NUMBER
    if isinstance(thing, array):
        return len(thing)
    if isinstance(thing, list | tuple | set | frozenset | dict):
        return sum(isinstance(one, float) for one in (thing.values() if isinstance(thing, dict) else thing))
    return 0


def _beneath(thing: Any, is_root: bool) -> list[Any]:
    if isinstance(thing, type):
        return list(vars(thing).values()) if is_root or thing.__module__ == "__main__" else []
    if isinstance(thing, FunctionType):
        named = thing.__globals__ if thing.__module__ == "__main__" else {}
        in_globals = [named[name] for name in _names(thing.__code__) if name in named]
        return [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, vars(thing), *in_globals]
    base = getattr(thing, "base", None) if type(thing).__module__ == "numpy" else None
    return [*gc.get_referents(thing), base]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
