"""What a process holds between two steps, looked for outside the run: tensors, and memory that is no tensor.

The garbage collector knows every tensor and every container. What lived before an attempt is frozen first
(``begin``), so that what it knows afterwards is the attempt's own. Beside it stands what the system counts.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from course_lib.capstone.memory.memory_limit import living
from course_lib.capstone.memory.non_tensor_memory import raw_bytes
from course_lib.capstone.memory.system_memory import Since, SystemHeld
from course_lib.meter.memory.storages import storages_of

__all__ = ["Holdings", "begin", "holdings", "numbers_held"]

_NARROW = frozenset({torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2})


@dataclass(frozen=True)
class Holdings:
    """What one rank held at the end of a step."""

    tensor_bytes: int  # of all tensors, a storage once
    shared_bytes: int  # of those whose memory other processes can see
    narrow_bytes: int  # of those with fewer than 32 bits a number
    raw_bytes: dict[str, int]  # of what is no tensor, by its type
    heap_bytes: int = 0  # of those tensors whose memory is C's
    held: SystemHeld = field(default_factory=SystemHeld)  # as the system counts


def begin() -> Since:
    """What lives now is no part of the attempt; what the system counts from now on is."""
    gc.collect()
    gc.freeze()
    return Since()


def holdings(since: Since, roots: Iterable[Any] = ()) -> Holdings:
    """Now. ``roots``: what the attempt was given and has made; whatever it can reach by name counts."""
    storages = {}
    shared_bytes = narrow_bytes = heap_bytes = 0
    for tensor in living()[0]:
        for storage in storages_of(tensor):
            if storage._cdata in storages:
                continue
            storages[storage._cdata] = storage.nbytes()
            shared_bytes += storage.nbytes() if storage.is_shared() else 0
            heap_bytes += storage.nbytes() if storage.device.type == "cpu" and not storage.is_shared() else 0
            narrow_bytes += storage.nbytes() if tensor.dtype in _NARROW and tensor.numel() > 1 else 0
    held = since.held()  # before anything is counted in Python, which takes memory
    raw = raw_bytes(roots, storages.keys())
    return Holdings(sum(storages.values()), shared_bytes, narrow_bytes, raw, heap_bytes, held)


def numbers_held() -> Tensor:
    """Every float32 number of every tensor of this process, sorted, as int32 bits."""
    seen: dict[int, Tensor] = {}
    for tensor in living()[0]:
        for storage in storages_of(tensor):
            if storage.nbytes() and storage.nbytes() % 4 == 0 and tensor.dtype == torch.float32:
                seen[storage._cdata] = torch.empty(0, dtype=torch.int32).set_(storage)  # type: ignore[call-overload]
    return torch.cat([torch.empty(0, dtype=torch.int32), *seen.values()]).unique()
