"""Where a rank stands, asked from outside while it is busy or stuck.

A small thread in every rank answers. It can, because a collective that blocks waits in C++ with Python's lock
released. It reads the main thread's stack, and PyTorch's flight recorder, which numbers every collective.
Where even the thread is silent (the lock is held, the process is stopped), ``faulthandler`` on a signal still prints.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from course_lib.cluster.failure import Frame, is_user_code

__all__ = ["Operation", "Standing", "Witness", "parse_stacks"]


# These stand around ``Work.wait``, and are not the place where a rank waits.
_AROUND_WAIT = ("/cluster/shaping.py", "/meter/recorder.py")
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


@dataclass(frozen=True)
class Standing:
    """What one rank is doing now. ``operation`` is the oldest unfinished one, or else the newest."""

    rank: int
    operation: Operation | None
    frames: tuple[Frame, ...]  # of the main thread, outermost first
    num_collectives: int | None = None  # begun in the default group in this call; None where nobody counted
    state: str = "running"  # "running", "stopped", "silent", "returned"

    @property
    def pending(self) -> Operation | None:
        return None if self.operation is None or self.operation.is_done else self.operation

    @property
    def is_blocked(self) -> bool:
        """Whether the main thread sits inside communication, not in code of its own."""
        inner = self.frames[-1].filename.replace("\\", "/") if self.frames else ""
        waits = ("/torch/autograd/graph.py", "/cluster/point_to_point.py")
        return "/torch/distributed/" in inner or inner.endswith(waits)

    @property
    def where(self) -> Frame | None:
        own = [frame for frame in self.frames if is_user_code(frame.filename)]
        return own[-1] if own else None


class Witness:
    """In the rank: knows when the present call began, and answers questions from a thread of its own."""

    def __init__(self, rank: int) -> None:
        self._rank, self._main_thread = rank, threading.main_thread().ident or 0
        self._began_ns, self._first_number = time.time_ns(), 0

    def mark_call(self) -> None:
        """A call begins now: number its collectives from 1, forget the earlier ones."""
        self._began_ns, self._first_number = time.time_ns(), _sequence_number()

    def answer_questions(self, watch: Connection) -> None:
        """The thread's life: each question gets a ``Standing``. When the parent is gone, so is this rank."""
        while True:
            try:
                question = watch.recv()
                watch.send((question, self._standing()))
            except (EOFError, OSError):
                os.killpg(os.getpgrp(), signal.SIGKILL)  # this rank leads its own group: its children go too

    def _standing(self) -> Standing:
        entries = [entry for entry in _flight_recorder() if entry.get("time_created_ns", 0) >= self._began_ns]
        before = self._numbers_before(entries)
        operations = [_operation(entry, before) for entry in entries]
        pending = [operation for operation in operations if not operation.is_done]
        numbers = [operation.number for operation in operations if operation.group == "0"]
        last = pending[0] if pending else operations[-1] if operations else None
        return Standing(self._rank, last, _stack_of(self._main_thread), max(numbers, default=0))

    def _numbers_before(self, entries: list[dict[str, Any]]) -> dict[str, int]:
        """By group, the number of the last collective before this call: what to subtract to count from 1.

        The recorder's first entry of the call tells, unless the call has run out of the recorder's buffer. Then the
        group's own count must do, which is too large where messages were sent: it includes them.
        """
        before: dict[str, int] = {}
        for entry in entries:
            if not entry.get("is_p2p"):
                before.setdefault(_group_of(entry), entry.get("collective_seq_id", 1) - 1)
        if len(entries) >= RECORDER_SIZE and "0" in before:
            before["0"] = min(before["0"], self._first_number)
        return before


def _operation(entry: dict[str, Any], before: dict[str, int]) -> Operation:
    group, is_message = _group_of(entry), bool(entry.get("is_p2p"))
    number = 0 if is_message else entry.get("collective_seq_id", 0) - before.get(group, 0)
    name = str(entry.get("profiling_name", "?")).partition(":")[2] or "?"
    shapes = tuple(tuple(shape) for shape in entry.get("input_sizes", []))
    dtypes = tuple(_DTYPE_NAMES.get(name, name.lower()) for name in entry.get("input_dtypes", []))
    return Operation(name, number, group, is_message, bool(entry.get("retired", True)), shapes, dtypes)


def _group_of(entry: dict[str, Any]) -> str:
    return str((entry.get("process_group") or ["0"])[0])


def _flight_recorder() -> list[dict[str, Any]]:
    """PyTorch's own record of what this process has sent off, oldest first; empty where torch keeps none."""
    c10d = getattr(getattr(sys.modules.get("torch"), "_C", None), "_distributed_c10d", None)
    dump = getattr(c10d, "_dump_fr_trace_json", None)
    return (json.loads(dump(True, False)).get("entries") or []) if dump else []


def _sequence_number() -> int:
    """How many collectives the default group has seen."""
    import torch.distributed as dist

    if not dist.is_initialized():
        return 0
    try:
        return dist.group.WORLD._get_sequence_number_for_group()  # type: ignore[union-attr]
    except (RuntimeError, AttributeError):  # not every back end counts
        return 0


def parse_stacks(text: str, rank: int, state: str) -> Standing:
    """A ``Standing`` from what ``faulthandler`` wrote: its last dump, main thread first in importance."""
    block: list[Frame] = []
    for line in text.splitlines():
        if line.startswith(("Thread ", "Current thread ")):
            block = []  # the main thread is printed last
        elif line.startswith("  File "):
            name, _, rest = line[8:].partition('", line ')
            number, _, function = rest.partition(" in ")
            block.append(Frame(name, int(number) if number.isdigit() else 0, function))
    return Standing(rank, None, tuple(reversed(block)), state=state)


def _stack_of(thread: int) -> tuple[Frame, ...]:
    frame = sys._current_frames().get(thread)
    summary = list(traceback.extract_stack(frame)) if frame is not None else []
    while summary and summary[-1].filename.replace("\\", "/").endswith(_AROUND_WAIT):
        summary.pop()
    return tuple(Frame(f.filename, f.lineno or 0, f.name) for f in summary)
