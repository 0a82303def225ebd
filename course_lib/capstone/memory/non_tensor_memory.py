"""Memory that is no tensor: large objects, and small ones that are many, as the garbage collector finds them.

A matrix may be hidden in one piece, as an array or a text, or in crumbs, as a list of rows or of numbers. So each
kind has two sums: of objects that are large alone, and of all the small ones.
"""

from __future__ import annotations

import ctypes
import gc
import io
import mmap
import sys
import threading
from array import array
from collections import Counter
from collections.abc import Container, Iterable
from decimal import Decimal
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.cluster.base.failure import is_user_code

__all__ = ["raw_bytes"]

_STORAGES = (torch.UntypedStorage, torch.TypedStorage)
_C_DATA: Any = ctypes.Array.__base__  # arrays, structures, numbers of C
_NUMBERS = (float, complex, Decimal, np.generic)
_NUMBER_KINDS = frozenset({"int", "float", "complex"})
_RAW = (
    np.ndarray,
    bytes,
    bytearray,
    memoryview,
    array,
    mmap.mmap,
    str,
    int,
    io.BytesIO,
    io.StringIO,
    _C_DATA,
    *_NUMBERS,
    *_STORAGES,
)
_BOXES = (dict, list, tuple, set, frozenset)
_LEAST_BYTES = 1024  # of one object: below, it is small
_LEAST_TEXT_BYTES = 32 * 1024  # of a text: below, it may describe a function of a library
_LEAST_NUMBERS, _NUMBER_BYTES = 1024, 32  # of a list that holds numbers, and what each takes there
_LEAST_WORD_BYTES = 256  # of a text: below, it is a name, or the path of a file
_SMALL_BYTES = 64 * 1024  # of all small objects of a kind: below, they are shapes, keys, flags
_SMALL_NUMBERS_BYTES = 256 * 1024  # of numbers: below, they are losses, times, a library's constants


def raw_bytes(roots: Iterable[Any], known: Container[int]) -> dict[str, int]:
    """Bytes of objects that are no tensors, by type, an object once. ``known``: storages that count already.

    Of two kinds the collector does not know: containers that hold nothing but such objects, and what is older than the
    attempt. So both are looked into, the second as far as ``roots`` can reach it by name.
    """
    new = gc.get_objects()
    told_by_libraries = _with_names_of_libraries(new)
    of_threads = _in_other_threads()
    ahead = [(one, False) for one in new] + [(of_threads, False), (list(roots), True)]
    seen = {id(new), id(ahead)}
    large: Counter[str] = Counter()
    small: Counter[str] = Counter()
    while ahead:
        holder, is_named = ahead.pop()
        are_counted = _are_numbers(holder)  # with the list that they are in
        for one in _held_by(holder):
            if id(one) in seen:
                continue
            if _are_numbers(one):
                seen.add(id(one))
                large[f"{type(one).__name__} of numbers"] += _NUMBER_BYTES * len(one)
            elif isinstance(one, str) and id(holder) in told_by_libraries:
                seen.add(id(one))
            elif isinstance(one, _RAW):
                seen.add(id(one))
                owner = _owner_of(one)
                if _is_of_objects(owner):
                    ahead.append((owner, is_named))
                if (owner is one or id(owner) not in seen) and not (are_counted and isinstance(one, (int, float))):
                    seen.add(id(owner))
                    _count(owner, known, large, small)
            elif (isinstance(one, _BOXES) and (is_named or not gc.is_tracked(one))) or (is_named and _is_own(one)):
                seen.add(id(one))
                ahead.append((one, is_named))
    return dict(large + Counter({kind: size for kind, size in small.items() if size >= _few_bytes(kind)}))


def _in_other_threads() -> list[Any]:
    """What somebody's own functions hold by name while they wait in another thread, where no collector looks."""
    held: list[Any] = []
    for thread, frame in sys._current_frames().items():
        while frame is not None and thread != threading.get_ident():
            if is_user_code(frame.f_code.co_filename):
                held.extend(frame.f_locals.values())
            frame = frame.f_back  # type: ignore[assignment]
    return held


def _held_by(holder: Any) -> Iterable[Any]:
    """What an object leads to; the collector does not look into arrays."""
    return holder.ravel().tolist() if _is_of_objects(holder) else gc.get_referents(holder)


def _is_of_objects(one: Any) -> bool:
    return isinstance(one, np.ndarray) and one.dtype == object


def _with_names_of_libraries(new: Iterable[Any]) -> set[int]:
    """Ids of modules, classes and functions that a library has brought, and of their names: they hold its own words."""
    found = set()
    for one in new:
        if isinstance(one, (ModuleType, FunctionType, type)) and not _is_own(one):
            found.add(id(one))
            found.update(id(part) for part in gc.get_referents(one) if isinstance(part, dict))
    return found


def _are_numbers(one: Any) -> bool:
    return isinstance(one, (list, tuple)) and len(one) >= _LEAST_NUMBERS and type(one[0]) in (int, float)


def _count(one: Any, known: Container[int], large: Counter[str], small: Counter[str]) -> None:
    """An object, where it belongs."""
    kind = "ctypes" if isinstance(one, _C_DATA) else type(one).__name__
    size = _size_bytes(one, known)
    if isinstance(one, str) and (size < _LEAST_WORD_BYTES or _is_prose(one)):
        return
    (large if size >= (_LEAST_TEXT_BYTES if isinstance(one, str) else _LEAST_BYTES) else small)[kind] += size


def _few_bytes(kind: str) -> int:
    return _SMALL_NUMBERS_BYTES if kind in _NUMBER_KINDS else _SMALL_BYTES


def _is_prose(text: str) -> bool:
    """Whether a text has as many spaces as a library's words about itself, and no more digits than these."""
    beginning = text[:4096]
    digits = sum(map(beginning.count, "0123456789"))
    return 16 * beginning.count(" ") >= len(beginning) >= 4 * digits


def _owner_of(one: Any) -> Any:
    """Of an array the one whose memory it looks at: a view holds all of it, and the collector does not know arrays."""
    while isinstance(one, np.ndarray) and isinstance(one.base, _RAW):
        one = one.base
    return one


def _is_own(one: Any) -> bool:
    """Whether a function, a class, a module, or an object of such a class is somebody's own, and no library's."""
    if isinstance(one, ModuleType):
        name, file = one.__name__, getattr(one, "__file__", None)
        return name not in sys.modules or name == "__main__" or (file is not None and is_user_code(file))
    if isinstance(one, FunctionType):
        return is_user_code(one.__code__.co_filename)
    if isinstance(one, (CellType, MethodType)):
        return True
    kind = one if isinstance(one, type) else type(one)
    module = sys.modules.get(kind.__module__)
    return module is None or _is_own(module)


def _size_bytes(one: Any, known: Container[int]) -> int:
    """Of a view of a tensor nothing: the tensor counts."""
    if isinstance(one, np.ndarray):
        return 0 if _is_of_a_tensor(one) else one.nbytes
    if isinstance(one, memoryview):
        return 0 if isinstance(one.obj, _RAW) else one.nbytes
    if isinstance(one, _STORAGES):
        return 0 if one._cdata in known else one.nbytes()
    if isinstance(one, array):
        return one.itemsize * len(one)
    if isinstance(one, io.StringIO):
        return 0 if one.closed else sys.getsizeof(one.getvalue())
    if isinstance(one, _C_DATA):
        return ctypes.sizeof(one)
    return len(one) if isinstance(one, (bytes, bytearray, mmap.mmap)) else sys.getsizeof(one)


def _is_of_a_tensor(one: np.ndarray[Any, Any]) -> bool:
    return isinstance(one.base, Tensor)
