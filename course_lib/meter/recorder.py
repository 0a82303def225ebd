"""The part of the communication meter that lives in a rank: turns calls of ``c10d`` operators into ``Call`` records."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from course_lib.cluster import taps
from course_lib.cluster.failure import Frame, is_user_code
from course_lib.meter.call import Call
from course_lib.meter.wire_bytes import traffic

__all__ = ["Recorder"]

_SETTLE_S = 2.0  # for calls that nobody has waited for to finish, when the recording ends

# c10d operator -> the operation's name in the course, and the argument that holds this rank's input.
_OPERATIONS = {
    "allreduce_": ("all_reduce", "tensors"),
    "allreduce_coalesced_": ("all_reduce", "tensors"),
    "broadcast_": ("broadcast", "tensors"),
    "reduce_": ("reduce", "tensors"),
    "allgather_": ("all_gather", "input_tensors"),
    "_allgather_base_": ("all_gather", "input_tensor"),
    "allgather_coalesced_": ("all_gather", "input_list"),
    "allgather_into_tensor_coalesced_": ("all_gather", "inputs"),
    "reduce_scatter_": ("reduce_scatter", "input_tensors"),
    "_reduce_scatter_base_": ("reduce_scatter", "input_tensor"),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", "inputs"),
    "gather_": ("gather", "input_tensors"),
    "scatter_": ("scatter", "input_tensors"),
    "alltoall_": ("all_to_all", "input_tensors"),
    "alltoall_base_": ("all_to_all", "input"),
    "barrier": ("barrier", ""),
    "monitored_barrier_": ("barrier", ""),
    "send": ("send", "tensors"),
    "recv_": ("receive", "tensors"),
    "recv_any_source_": ("receive", "tensors"),
}


class Recorder:
    """Records the calls of this process while it is entered; ``calls`` are complete once it has been left."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._lock = threading.Lock()
        self._open: list[_Pending] = []

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(pending.finished() for pending in self._open)

    def __enter__(self) -> Recorder:
        taps.open_tap(self._hear)
        self._plain_wait = Work.wait
        Work.wait = self._wait_of(Work.wait)  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Work.wait = self._plain_wait  # type: ignore[method-assign]
        taps.close(self._hear)
        deadline = time.monotonic() + _SETTLE_S
        for pending in self._open:
            if pending.is_watched and time.monotonic() < deadline:
                pending.done.wait(max(0.0, deadline - time.monotonic()))

    def _wait_of(self, plain_wait: Any) -> Any:
        """``Work.wait`` that also notes when a message was there: gloo's messages tell only the one who waits."""

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = plain_wait(work, *args, **kwargs)
            for pending in self._open:
                if pending.work is work and not pending.is_watched:
                    pending.end()
            return result

        return wait

    def _hear(self, name: str, arguments: dict[str, Any], proceed: Any) -> Any:
        if name not in _OPERATIONS:
            return proceed()
        pending = _Pending(self._call(name, arguments), threading.get_ident())
        with self._lock:
            pending.call = replace(pending.call, number=len(self._open) + 1)
            self._open.append(pending)
        pending.begin()
        result = proceed()
        pending.watch(result)
        return result

    def _call(self, name: str, arguments: dict[str, Any]) -> Call:
        operation, input_name = _OPERATIONS[name]
        group = ProcessGroup.unbox(arguments["process_group"])
        ranks = tuple(dist.get_process_group_ranks(group))
        size_bytes = _size_bytes(arguments.get(input_name))
        sent_bytes, num_messages = self._traffic(operation, arguments, group, ranks, size_bytes)
        return Call(
            rank=self._rank,
            number=0,
            operation=operation,
            group=ranks,
            size_bytes=size_bytes,
            sent_bytes=sent_bytes,
            num_messages=num_messages,
            start_s=0.0,
            end_s=None,
            hidden_s=None,
            line=_line_of(sys._getframe()),
            thread=threading.current_thread().name,
        )

    def _traffic(
        self, operation: str, arguments: dict[str, Any], group: Any, ranks: tuple[int, ...], size_bytes: int
    ) -> tuple[dict[int, int], int]:
        if operation == "receive":
            return {}, 0
        if operation == "send":
            return {ranks[arguments["dst"]]: size_bytes}, 1
        sent = traffic(
            operation,
            rank=group.rank(),
            num_ranks=group.size(),
            size_bytes=size_bytes,
            root=arguments.get("root_rank", 0),
            backend=dist.get_backend(group),
            split_bytes=_split_bytes(arguments),
        )
        return {ranks[peer]: count for peer, count in sent.sent_bytes.items()}, sent.num_messages


@dataclass
class _Pending:
    """A call that has begun: its clock readings come in from whichever thread sees it end."""

    call: Call
    thread: int

    def __post_init__(self) -> None:
        self.done = threading.Event()
        self.work: Any = None
        self.is_watched = False  # whether the end will be noted without anybody waiting

    def begin(self) -> None:
        self._cpu_s = _cpu_clock(self.thread)
        self.call = replace(self.call, start_s=time.perf_counter())

    def watch(self, result: Any) -> None:
        """Have the end noted by whoever brings it about."""
        works = [
            part for part in (result if isinstance(result, (tuple, list)) else [result]) if _is_work(part)
        ]
        if not works:
            return self.end()
        self.work = Work.unbox(works[0])
        if any(tensor.is_cuda for tensor in _tensors(result)):
            return None  # the host's clock says nothing about the end of work on a GPU
        try:
            self.work.get_future().add_done_callback(lambda _: self.end())
            self.is_watched = True
        except RuntimeError:
            pass  # a message of gloo: ``Work.wait`` will tell
        return None

    def end(self) -> None:
        if not self.done.is_set():
            end_s, cpu_s = time.perf_counter(), _cpu_clock(self.thread)
            hidden_s = None if cpu_s is None or self._cpu_s is None else cpu_s - self._cpu_s
            self.call = replace(self.call, end_s=end_s, hidden_s=hidden_s)
            self.done.set()

    def finished(self) -> Call:
        return self.call


def _cpu_clock(thread: int) -> float | None:
    """Seconds that a thread has computed so far; None where the system does not tell one thread about another."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return None
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread))
    except OSError:
        return None  # the thread has ended


def _is_work(value: Any) -> bool:
    return isinstance(value, torch.ScriptObject)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in _tensors(part)]
    return []


def _size_bytes(value: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(value))


def _split_bytes(arguments: dict[str, Any]) -> list[int] | None:
    """The unequal parts of an all_to_all, in bytes by receiver; None where the parts are equal or it is none."""
    if arguments.get("input_split_sizes"):
        tensor = arguments["input"]
        row_bytes = tensor.element_size() * (tensor.numel() // max(1, tensor.shape[0]))
        return [row_bytes * rows for rows in arguments["input_split_sizes"]]
    if isinstance(arguments.get("input_tensors"), (list, tuple)) and "output_tensors" in arguments:
        parts = arguments["input_tensors"]
        if all(isinstance(part, torch.Tensor) for part in parts) and len(parts) > 1:
            return [_size_bytes(part) for part in parts]
    return None


def _line_of(frame: FrameType | None) -> Frame | None:
    while frame is not None:
        if is_user_code(frame.f_code.co_filename) and "course_lib/meter" not in frame.f_code.co_filename:
            return Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
