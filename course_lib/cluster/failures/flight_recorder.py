"""PyTorch's flight recorders: what they keep of this process's collectives, as ``Operation``.

There are two: one of back ends on the host, gloo's among them, and one of NCCL. In NCCL's a collective is over some
time after it was, when a thread of PyTorch has looked: enough to tell where a rank stands, not to judge it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["RECORDER_SIZE", "Operation", "dump_of", "entries_since", "groups_begin_anew"]

RECORDER_SIZE = 256  # entries that PyTorch's flight recorder keeps in a rank
_DTYPE_NAMES = {"Float": "float32", "Double": "float64", "Half": "float16", "Long": "int64", "Int": "int32"}
_DECODER = json.JSONDecoder()


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


def entries_since(began_ns: int, before: Callable[[str], int], *, nccl: bool = False) -> list[Operation]:
    """What was begun since then, oldest first. ``before(group)``: its collectives before, so as to count from 1.

    The recorder keeps the newest ``RECORDER_SIZE`` entries, and of gloo's messages none. ``nccl``: NCCL's recorder.
    Its times need not agree with ours, so an older entry is known by its number as well: that in its group, and that in
    the recorder where the group is a later one (``groups_begin_anew``).
    """
    entries = [
        _operation(entry, before)
        for entry in _dump(nccl=nccl)
        if entry.get("time_created_ns", 0) >= began_ns and entry.get("record_id", _first_id[nccl]) >= _first_id[nccl]
    ]
    return [one for one in entries if one.is_message or one.number > 0]


_first_id = {False: 0, True: 0}  # of the entries since the groups of this process were made; by NCCL's recorder or not


def groups_begin_anew() -> None:
    """The process group has been made again, and numbers its collectives from 1: what came before is of another."""
    for nccl in _first_id:
        if entries := _dump(nccl=nccl):
            _first_id[nccl] = entries[-1].get("record_id", -1) + 1


def dump_of(name: str, *, nccl: bool) -> Callable[..., Any] | None:
    """PyTorch's function of this name ("fr_trace", "fr_trace_json") for one of the recorders, if it has one."""
    torch = sys.modules.get("torch")
    if nccl and not (torch is not None and torch.cuda.is_initialized()):
        return None
    c10d = getattr(getattr(torch, "_C", None), "_distributed_c10d", None)
    return getattr(c10d, f"_dump_{name.replace('fr_', 'nccl_') if nccl else name}", None)


def _operation(entry: dict[str, Any], before: Callable[[str], int]) -> Operation:
    group, is_message = str((entry.get("process_group") or ["0"])[0]), bool(entry.get("is_p2p"))
    number = 0 if is_message else entry.get("collective_seq_id", 0) - before(group)
    name = str(entry.get("profiling_name", "?")).partition(":")[2] or "?"
    shapes = tuple([tuple(shape) for shape in entry.get("input_sizes", [])])
    dtypes = tuple([_DTYPE_NAMES.get(name, name.lower()) for name in entry.get("input_dtypes", [])])
    return Operation(name, number, group, is_message, bool(entry.get("retired", True)), shapes, dtypes)


def _dump(*, nccl: bool = False) -> list[dict[str, Any]]:
    """PyTorch's own record of what this process has sent off, oldest first; empty where torch keeps none.

    A rank's second thread asks while the capstone looks through all that the collector knows. ``json.loads`` matches
    the text against a pattern, and the collector knows a match, with its text of some 60 KB; ``raw_decode`` does not.
    """
    dump = dump_of("fr_trace_json", nccl=nccl)
    if dump is None:
        return []
    text = dump(True, False)  # bytes, by torch 2.13
    return _DECODER.raw_decode(text if isinstance(text, str) else text.decode())[0].get("entries") or []
