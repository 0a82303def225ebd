"""The status of a rank, asked from outside while it is busy or blocked.

A small thread in every rank answers. It can, because a collective that blocks waits in C++ with Python's lock
released. It reads the main thread's stack, this rank's account of what it has begun, and PyTorch's flight recorder.
Where even the thread is silent (the lock is held, the process is stopped), ``faulthandler`` on a signal still prints.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from course_lib.cluster.base.failure import Frame, is_user_code
from course_lib.cluster.base.open_groups import groups_here, ranks_of
from course_lib.cluster.base.stack_of_thread import stack_of
from course_lib.cluster.failures.flight_recorder import RECORDER_SIZE, Operation, entries_since
from course_lib.cluster.hooks.op_tracker import OpTracker
from course_lib.cluster.hooks.pending_ops import Channel, PendingOp

__all__ = ["RECORDER_SIZE", "Accounts", "Operation", "RankStatus", "StatusThread", "parse_stacks"]


# Our ``Work.wait`` and our constructor of a group stand there; they are not the place where a rank waits.
_AROUND_WAIT = ("/cluster/hooks/comm_hooks.py", "/cluster/ports/port_guard.py")
_WITHIN_STORE = "/cluster/base/line_store.py"  # from there on it is we who ask, for PyTorch
_NUM_RECENT = 16  # operations that are told: enough to compare what ranks have called
# Functions of torch.distributed that wait for other ranks without a ``Work``.
_RENDEZVOUS = ("monitored_barrier", "new_group", "_new_group_with_tag", "init_process_group")


@dataclass(frozen=True)
class Accounts:
    """What a rank has begun in this call, so that ranks can be compared."""

    counts: Mapping[str, int] = field(default_factory=dict)  # collectives, by group
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # the ranks of each
    made: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # asked of new_group, by name, oldest first
    num_local_groups: int = 0  # groups that members alone have made, and that have moved the number in the names
    sent: Mapping[Channel, int] = field(default_factory=dict)
    posted: Mapping[Channel, int] = field(default_factory=dict)  # receives
    received: Mapping[Channel, int] = field(default_factory=dict)  # receives that are over
    posted_any: Mapping[tuple[str, int], int] = field(default_factory=dict)  # from anyone, by group and tag
    dropped: tuple[PendingOp, ...] = ()  # messages whose ``Work`` was forgotten
    recent: tuple[Operation, ...] = ()  # the newest collectives


@dataclass(frozen=True)
class RankStatus:
    """What one rank is doing now. ``operation``: what it waits for, or else the oldest unfinished or the newest one."""

    rank: int
    operation: Operation | None
    frames: tuple[Frame, ...]  # of the main thread, outermost first
    num_collectives: int | None = None  # begun in the default group in this call; None where nobody counted
    state: str = "running"  # "running", "stopped", "silent", "returned", "absent"
    message: PendingOp | None = None  # that the main thread waits for
    is_in_wait: bool = False  # the main thread is inside ``Work.wait``
    is_asleep: bool = False  # the system says that the main thread does not run
    accounts: Accounts | None = None
    is_on_nccl: bool = False  # ``operation`` is by NCCL's recorder, which hears late that one is over

    @property
    def pending(self) -> Operation | None:
        return None if self.operation is None or self.operation.is_done else self.operation

    @property
    def is_blocked(self) -> bool:
        """Whether the main thread sits inside communication, not in code of its own."""
        inner = self.frames[-1].filename.replace("\\", "/") if self.frames else ""
        return self.is_in_wait or "/torch/distributed/" in inner or inner.endswith("/torch/autograd/graph.py")

    @property
    def rendezvous(self) -> str:
        """The function of torch.distributed in which it waits for other ranks without a ``Work``; mostly empty."""
        if self.is_in_wait or not self.is_blocked:
            return ""
        names = [frame.function for frame in self.frames if "/torch/distributed/" in frame.filename.replace("\\", "/")]
        found = [name for name in names if name in _RENDEZVOUS]
        return found[0].replace("_new_group_with_tag", "new_group") if found else ""

    @property
    def is_importing(self) -> bool:
        """Whether the main thread is in the middle of an import."""
        return any(frame.filename.startswith("<frozen importlib") for frame in self.frames)

    @property
    def where(self) -> Frame | None:
        own = [frame for frame in self.frames if is_user_code(frame.filename)]
        return own[-1] if own else None


class StatusThread:
    """In the rank: knows when the present call began, and answers questions from a thread of its own."""

    def __init__(self, rank: int, tracker: OpTracker) -> None:
        self._rank, self._main_thread = rank, threading.main_thread().ident or 0
        self._tracker, self._began_ns = tracker, time.time_ns()

    def mark_call(self) -> None:
        """A call begins now: forget the collectives before it."""
        self._began_ns = time.time_ns()

    def answer_questions(self, watch: Connection) -> None:
        """The thread's life: each question gets a ``RankStatus``. When the parent is gone, so is this rank."""
        while True:
            try:
                question = watch.recv()
                watch.send((question, self.status()))
            except (EOFError, OSError):
                os.killpg(os.getpgrp(), signal.SIGKILL)  # this rank leads its own group: its children go too

    def status(self, rank: int | None = None) -> RankStatus:
        """What this process's main thread does now. ``rank``: by which number, where it is known only now."""
        is_in_wait, waited = self._tracker.waits_for(self._main_thread)
        operations = entries_since(self._began_ns, self._tracker.before)
        counts = self._tracker.counts()
        for operation in operations:  # of a group that has gone since, too
            counts[operation.group] = max(counts.get(operation.group, 0), operation.number)
        message = waited if waited is not None and waited.is_message else None
        on_nccl = [] if operations else entries_since(self._began_ns, self._tracker.before, nccl=True)
        return RankStatus(
            self._rank if rank is None else rank,
            None if message is not None else _present(operations or on_nccl, waited),
            _stack_of(self._main_thread),
            counts.get("0", 0),
            message=message,
            is_in_wait=is_in_wait,
            is_asleep=_is_asleep(),
            accounts=self._accounts(operations, counts),
            is_on_nccl=bool(on_nccl),
        )

    def _accounts(self, operations: list[Operation], counts: dict[str, int]) -> Accounts:
        page = self._tracker.page
        return Accounts(
            counts=counts,
            groups={name: ranks_of(group) for name, group in groups_here()},
            made=dict(self._tracker.names.made),
            num_local_groups=self._tracker.names.num_local_groups,
            sent=dict(page.sent),
            posted=dict(page.posted),
            received=dict(page.received),
            posted_any=dict(page.posted_any),
            dropped=self._tracker.dropped(),
            recent=tuple(operations[-_NUM_RECENT:]),
        )


def _present(operations: list[Operation], waited: PendingOp | None) -> Operation | None:
    """The operation to name: the one waited for, else the oldest unfinished, else the newest."""
    if waited is not None:
        for operation in operations:
            if (operation.group, operation.number) == (waited.group, waited.number):
                return operation
        return Operation(waited.name, waited.number, waited.group, False, False, (), ())
    pending = [operation for operation in operations if not operation.is_done]
    return pending[0] if pending else operations[-1] if operations else None


def _is_asleep() -> bool:
    """Whether the main thread is waiting for something, by the system's word; False where it does not tell."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return False  # a thread of autograd computes for it
    try:
        with open("/proc/self/stat") as file:  # of a process: that of its main thread
            return file.read().rpartition(")")[2].split()[0] == "S"
    except (OSError, IndexError):
        return False


def parse_stacks(text: str, rank: int, state: str) -> RankStatus:
    """A ``RankStatus`` from what ``faulthandler`` wrote: its last dump, main thread first in importance."""
    block: list[Frame] = []
    for line in text.splitlines():
        if line.startswith(("Thread ", "Current thread ")):
            block = []  # the main thread is printed last
        elif line.startswith("  File "):
            name, _, rest = line[8:].partition('", line ')
            number, _, function = rest.partition(" in ")
            block.append(Frame(name, int(number) if number.isdigit() else 0, function))
    return RankStatus(rank, None, tuple(reversed(block)), state=state)


def _stack_of(thread: int) -> tuple[Frame, ...]:
    stack = stack_of(thread)
    for depth, frame in enumerate(stack):
        if frame.filename.replace("\\", "/").endswith(_WITHIN_STORE):
            stack = stack[:depth]
            break
    while stack and stack[-1].filename.replace("\\", "/").endswith(_AROUND_WAIT):
        stack = stack[:-1]
    return stack
