"""The part of the communication meter that lives in a rank: turns calls of ``c10d`` operators into ``Call`` records."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from course_lib.base.clock import now_s
from course_lib.cluster.base.call_marks import only_on_gloo, under_construction
from course_lib.cluster.base.failure import Frame, is_user_code
from course_lib.cluster.hooks import comm_hooks, operators
from course_lib.cluster.hooks.operators import CommCall, tensors_in
from course_lib.cluster.links.emulated_compute import paced_s
from course_lib.meter.communication.batches import BatchCounter
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.wire_bytes import traffic

__all__ = ["Recorder"]

_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_SETTLE_S = 2.0  # for calls that nobody has waited for to finish, when the recording ends


class Recorder:
    """Records the calls of this process while it is entered; ``calls`` are complete once it has been left.

    All of them are there, also those by which a strategy that is built compares what ranks were given
    (``is_construction``).
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._lock = threading.Lock()
        self._open: list[_Pending] = []
        self._batches = BatchCounter()

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(pending.finished() for pending in self._open)

    def __enter__(self) -> Recorder:
        comm_hooks.subscribe(self._on_call)
        comm_hooks.subscribe_waits(self)
        return self

    def __exit__(self, *_: object) -> None:
        comm_hooks.unsubscribe_waits(self)
        comm_hooks.unsubscribe(self._on_call)
        deadline = time.monotonic() + _SETTLE_S
        for pending in self._open:
            if pending.is_watched and time.monotonic() < deadline:
                pending.done.wait(max(0.0, deadline - time.monotonic()))

    def wait_started(self, work: Any) -> float:
        return now_s()

    def wait_ended(self, work: Any, started: float, error: BaseException | None) -> None:
        """Note when a message was there: gloo's messages tell only the one who waits.

        What began after a wait comes after what was waited for, on NCCL's streams as well: so that is kept, too. The
        work is not: gloo's holds its tensors, which would count as memory that the program has long let go.
        """
        if error is None:
            for pending in self._open:
                if pending.work is work:
                    pending.waited_for(len(self._open), started)
                    pending.work = None

    def _on_call(self, name: str, arguments: dict[str, Any], proceed: Any) -> Any:
        asked = operators.read(name, arguments)
        if asked is None:
            return proceed()
        pending = _Pending(self._call(asked), threading.get_ident(), _is_on_a_stream(asked, arguments))
        with self._lock:
            pending.call = replace(pending.call, number=len(self._open) + 1)
            self._open.append(pending)
        pending.begin()
        result = proceed()
        pending.watch(result)
        return result

    def _call(self, asked: CommCall) -> Call:
        sent_bytes, num_messages = _sent(asked)
        return Call(
            rank=self._rank,
            number=0,
            operation=asked.operation,
            group=asked.ranks,
            size_bytes=asked.size_bytes,
            sent_bytes=sent_bytes,
            num_messages=num_messages,
            start_s=0.0,
            end_s=None,
            hidden_s=None,
            line=_line_of(sys._getframe()),
            thread=threading.current_thread().name,
            operator=asked.operator,
            group_name=asked.group.group_name,
            peer=None if asked.peer is None else asked.ranks[asked.peer],
            tag=asked.tag,
            batch=self._batches.number(sys._getframe()) if asked.operation in ("send", "recv") else None,
            dtype=asked.dtype,
            only_on_gloo=only_on_gloo.is_on,
            is_construction=under_construction.is_on,
            root=asked.ranks[asked.root] if asked.operation in _ROOTED else None,
        )


def _sent(asked: CommCall) -> tuple[dict[int, int], int]:
    """What a call puts on the wire: bytes by receiver, and the number of messages."""
    if asked.operation == "recv":
        return {}, 0
    if asked.operation == "send":
        assert asked.peer is not None
        return {asked.ranks[asked.peer]: asked.size_bytes}, 1
    sent = traffic(
        asked.operation,
        rank=asked.group_rank,
        num_ranks=len(asked.ranks),
        size_bytes=asked.size_bytes,
        root=asked.root,
        backend=asked.backend,
        split_bytes=asked.split_bytes,
        is_list=asked.operator == "reduce_scatter_",
    )
    return {asked.ranks[peer]: count for peer, count in sent.sent_bytes.items()}, sent.num_messages


@dataclass
class _Pending:
    """A call that has begun: its clock readings come in from whichever thread sees it end."""

    call: Call
    thread: int
    is_on_a_stream: bool = False  # as NCCL's: to wait for it holds up the stream, and not the host

    def __post_init__(self) -> None:
        self.done = threading.Event()
        self.work: Any = None
        self.is_watched = False  # whether the end will be noted without anybody waiting

    def begin(self) -> None:
        self._cpu_s = _cpu_clock(self.thread)
        self.call = replace(self.call, start_s=now_s())

    def watch(self, result: Any) -> None:
        """Have the end noted by whoever brings it about; what runs on a stream ends when no clock of the host looks.

        NCCL gives no ``Work`` (a null pointer) for a call that is not asynchronous, and for a message in a batch.
        """
        works = [part for part in (result if isinstance(result, (tuple, list)) else [result]) if _is_work(part)]
        self.work = Work.unbox(works[0]) if works else None
        if self.is_on_a_stream:
            return None
        if self.work is None:
            return self.end()
        if any(tensor.is_cuda for tensor in tensors_in(result)):
            return None  # gloo's future is over before the result is on the device: ``Work.wait`` will tell
        try:
            self.work.get_future().add_done_callback(lambda _: self.end())
            self.is_watched = True
        except RuntimeError:
            pass  # a message of gloo: ``Work.wait`` will tell
        return None

    def waited_for(self, num_started: int, began_s: float) -> None:
        if self.call.waited_after is None:
            self.call = replace(self.call, waited_after=num_started, waited_s=began_s)
        if not self.is_watched and not self.is_on_a_stream:
            self.end()

    def end(self) -> None:
        if not self.done.is_set():
            end_s, cpu_s = now_s(), _cpu_clock(self.thread)
            hidden_s = None if cpu_s is None or self._cpu_s is None else cpu_s - self._cpu_s
            self.call = replace(self.call, end_s=end_s, hidden_s=hidden_s)
            self.done.set()

    def finished(self) -> Call:
        return self.call


def _cpu_clock(thread: int) -> float | None:
    """Seconds that a thread has computed so far, paced waits included.

    None where the system does not tell one thread about another.
    """
    if not hasattr(time, "pthread_getcpuclockid"):
        return None
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread)) + paced_s(thread)
    except OSError:
        return None  # the thread has ended


def _is_on_a_stream(asked: CommCall, arguments: dict[str, Any]) -> bool:
    """Whether a back end other than gloo has it done by a GPU, which the host does not wait for."""
    return asked.backend != "gloo" and any(tensor.is_cuda for tensor in tensors_in([*arguments.values()]))


def _is_work(value: Any) -> bool:
    return isinstance(value, torch.ScriptObject)


def _line_of(frame: FrameType | None) -> Frame | None:
    while frame is not None:
        if is_user_code(frame.f_code.co_filename) and "course_lib/meter" not in frame.f_code.co_filename:
            return Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
