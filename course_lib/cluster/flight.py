"""PyTorch's flight recorder: what it keeps of this process's collectives, as ``Operation``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["RECORDER_SIZE", "Operation", "entries_since"]

RECORDER_SIZE = 256  # entries that PyTorch's flight recorder keeps in a rank
_DTYPE_NAMES = {"Float": "float32", "Double": "float64", "Half": "float16", "Long": "int64", "Int": "int32"}


@dataclass(frozen=True)
class Operation:
    """A collective or a message that a rank has begun in this call, by the flight recorder."""

    name: str  # "all_reduce", "send 0->1"
    number: int  # counted from 1 within the call; messages are not counted
    group: str  # "0" is the default group
    is_message: bool  # point-to-point
    is_done: bool
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]


def entries_since(began_ns: int, before: Callable[[str], int]) -> list[Operation]:
    """What was begun since then, oldest first. ``before(group)``: its collectives before, so as to count from 1.

    The recorder keeps the newest ``RECORDER_SIZE`` entries, and of gloo's messages none.
    """
    return [_operation(entry, before) for entry in _dump() if entry.get("time_created_ns", 0) >= began_ns]


def _operation(entry: dict[str, Any], before: Callable[[str], int]) -> Operation:
    group, is_message = str((entry.get("process_group") or ["0"])[0]), bool(entry.get("is_p2p"))
    number = 0 if is_message else entry.get("collective_seq_id", 0) - before(group)
    name = str(entry.get("profiling_name", "?")).partition(":")[2] or "?"
    shapes = tuple([tuple(shape) for shape in entry.get("input_sizes", [])])
    dtypes = tuple([_DTYPE_NAMES.get(name, name.lower()) for name in entry.get("input_dtypes", [])])
    return Operation(name, number, group, is_message, bool(entry.get("retired", True)), shapes, dtypes)


def _dump() -> list[dict[str, Any]]:
    """PyTorch's own record of what this process has sent off, oldest first; empty where torch keeps none."""
    c10d = getattr(getattr(sys.modules.get("torch"), "_C", None), "_distributed_c10d", None)
    dump = getattr(c10d, "_dump_fr_trace_json", None)
    return (json.loads(dump(True, False)).get("entries") or []) if dump else []
