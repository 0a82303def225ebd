"""What a process holds between two steps, looked for outside the run: tensors, and memory that is no tensor.

The garbage collector knows every tensor and every container. What lived before an attempt is frozen first
(``begin``), so that what it knows afterwards is the attempt's own.
"""

from __future__ import annotations

import ctypes
import gc
import io
import mmap
import sys
from array import array
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from course_lib.capstone.weighing import living
from course_lib.cluster.failure import is_user_code
from course_lib.meter.storages import storages_of

__all__ = ["Holdings", "begin", "holdings", "numbers_held"]

_STORAGES = (torch.UntypedStorage, torch.TypedStorage)
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
    ctypes.Array,
    *_STORAGES,
)
_BOXES = (dict, list, tuple, set, frozenset)
_LEAST_BYTES = 1024  # of one object: below, it is a name, a shape, a flag
_LEAST_TEXT_BYTES = 32 * 1024  # of a text: below, it may describe a function of a library
_LEAST_NUMBERS, _NUMBER_BYTES = 1024, 32  # of a list that holds numbers, and what each takes there
_NARROW = frozenset(
    {torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2}
)


@dataclass(frozen=True)
class Holdings:
    """What one rank held at the end of a step."""

    tensor_bytes: int  # of all tensors, a storage once
    shared_bytes: int  # of those whose memory other processes can see
    narrow_bytes: int  # of those with fewer than 32 bits a number
    raw_bytes: dict[str, int]  # of what is no tensor, by its type
    children: tuple[str, ...]  # processes that this one has started and that still run


def begin() -> None:
    """What lives now is no part of the attempt."""
    gc.collect()
    gc.freeze()


def holdings(roots: Iterable[Any] = ()) -> Holdings:
    """Now. ``roots``: what the attempt was given and has made; whatever it can reach by name counts."""
    storages = {}
    shared_bytes = narrow_bytes = 0
    for tensor in living()[0]:
        for storage in storages_of(tensor):
            if storage._cdata in storages:
                continue
            storages[storage._cdata] = storage.nbytes()
            shared_bytes += storage.nbytes() if storage.is_shared() else 0
            narrow_bytes += storage.nbytes() if tensor.dtype in _NARROW and tensor.numel() > 1 else 0
    children = tuple(child.name() for child in psutil.Process().children())
    return Holdings(
        sum(storages.values()), shared_bytes, narrow_bytes, _raw_bytes(roots, storages.keys()), children
    )


def numbers_held() -> Tensor:
    """Every float32 number of every tensor of this process, sorted, as int32 bits."""
    seen: dict[int, Tensor] = {}
    for tensor in living()[0]:
        for storage in storages_of(tensor):
            if storage.nbytes() and storage.nbytes() % 4 == 0 and tensor.dtype == torch.float32:
                seen[storage._cdata] = torch.empty(0, dtype=torch.int32).set_(storage)  # type: ignore[call-overload]
    return torch.cat([torch.empty(0, dtype=torch.int32), *seen.values()]).unique()


def _raw_bytes(roots: Iterable[Any], known: Container[int]) -> dict[str, int]:
    """Bytes of large objects that are no tensors, by type, an object once. ``known``: storages that count already.

    Of two kinds the collector does not know: containers that hold nothing but such objects, and what is older than the
    attempt. So both are looked into, the second as far as ``roots`` can reach it by name.
    """
    new = gc.get_objects()
    ahead = [(one, False) for one in new] + [(list(roots), True)]
    seen = {id(new), id(ahead)}
    found: Counter[str] = Counter()
    while ahead:
        holder, is_named = ahead.pop()
        for one in gc.get_referents(holder):
            if id(one) in seen:
                continue
            if isinstance(one, (list, tuple)) and len(one) >= _LEAST_NUMBERS and type(one[0]) in (int, float):
                seen.add(id(one))
                found[f"{type(one).__name__} of numbers"] += _NUMBER_BYTES * len(one)
            elif isinstance(one, _RAW):
                seen.add(id(one))
                size = _size_bytes(one, known)
                if size >= (_LEAST_TEXT_BYTES if isinstance(one, str) else _LEAST_BYTES):
                    found[type(one).__name__] += size
            elif (isinstance(one, _BOXES) and (is_named or not gc.is_tracked(one))) or (
                is_named and _is_own(one)
            ):
                seen.add(id(one))
                ahead.append((one, is_named))
    return dict(found)


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
    """Of a view nothing: its base counts, where that is one of these itself."""
    if isinstance(one, np.ndarray):
        return 0 if isinstance(one.base, _RAW) or _is_of_a_tensor(one) else one.nbytes
    if isinstance(one, memoryview):
        return 0 if isinstance(one.obj, _RAW) else one.nbytes
    if isinstance(one, _STORAGES):
        return 0 if one._cdata in known else one.nbytes()
    if isinstance(one, array):
        return one.itemsize * len(one)
    return len(one) if isinstance(one, (bytes, bytearray, mmap.mmap)) else sys.getsizeof(one)


def _is_of_a_tensor(one: np.ndarray[Any, Any]) -> bool:
    return isinstance(one.base, Tensor)
