"""What replicas are seen doing: a root module that notes each call, and a meter of the memory that is made besides."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = [
    "ReplicaCall",
    "ThreadRendezvous",
    "Trace",
    "WatchedRoot",
    "bytes_of_tensors",
    "modes_now",
    "place_of",
    "threads_metered",
    "tracing",
]

_MEET_S = 1.0  # how long a replica waits for the others; those that run one after another never meet
_LATER_S = 0.01  # from one replica that is done to the next
_EARLY_S = 0.4  # from the first that is done to the others, where one of them is early

_now: list[Trace] = []  # a replica's thread knows nothing of its maker's


class ThreadRendezvous:
    """All of ``count`` threads wait until the last has come, and then leave from the last to the first.

    No condition of Python's is used: a judge cuts the waits of those short, and this wait is no answer's.
    """

    def __init__(self, count: int, is_patient: bool = True, in_order: bool = True) -> None:
        self.count, self.num_here, self.is_broken = count, 0, False
        self._in_order = in_order
        self._wait_s = _MEET_S if is_patient else _LATER_S
        self._lock, self._gate = threading.Lock(), threading.Lock()
        self._exits, self._back = [threading.Lock() for _ in range(count)], threading.Lock()
        for lock in (self._gate, self._back, *self._exits):
            lock.acquire()

    def leave_first(self, number: int) -> None:
        """Replica 0 leaves at once; the others when the caller is back, which is too early, or after a while."""
        if number and self._back.acquire(timeout=_EARLY_S):
            self._back.release()

    def call_is_over(self) -> None:
        if self._back.locked():
            self._back.release()

    def arrive(self) -> bool:
        """Whether all came, in time."""
        with self._lock:
            self.num_here += 1
            if self.num_here == self.count:
                self._gate.release()
        if not self.is_broken and self._gate.acquire(timeout=self._wait_s):
            self._gate.release()
            return True
        self.is_broken = True
        return False

    def leave(self, number: int) -> None:
        """Waits until the next one has left, a moment ago."""
        if (
            self._in_order
            and not self.is_broken
            and number + 1 < self.count
            and self._exits[number + 1].acquire(timeout=_MEET_S)
        ):
            time.sleep(_LATER_S)

    def left(self, number: int) -> None:
        if self._in_order and number < self.count and self._exits[number].locked():
            self._exits[number].release()


@dataclass
class ReplicaCall:
    """One call of the root: what it computed with, by the places of memory, and the modes it ran in."""

    first_row: int
    num_rows: int
    places: dict[str, int]  # the memory of each weight and buffer, by its name
    input_places: list[int]
    modes: tuple[bool, bool, bool, str]  # records, inference, autocast and its dtype
    is_training: bool
    mixed: bool = False  # its weights were others once all replicas had begun
    leaves: list[str] = field(default_factory=list)  # learned weights that are leaves, and not the module's
    cast: list[str] = field(default_factory=list)  # what has another dtype than in the module
    thawed: list[str] = field(default_factory=list)  # what asks for a gradient, and does not in the module


@dataclass
class Trace:
    """All calls of one run. ``rendezvous``: where replicas wait for each other, within their forward."""

    original: nn.Module
    rows_each: int = 1  # of all parts but the last
    rendezvous: ThreadRendezvous | None = None
    early: bool = False  # replica 0 is done first
    calls: list[ReplicaCall] = field(default_factory=list)
    met: bool = True
    running: int = 0
    most_at_once: int = 0
    num_done: int = 0
    made_bytes: int = 0
    num_made: int = 0  # tensors with memory of their own
    seen: list[tuple[str, StorageWeakRef]] = field(default_factory=list)  # while it is there, no place is used again
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.own = dict(_named_tensors(self.original))
        self.own_places = {name: place_of(tensor) for name, tensor in self.own.items()}

    def begin(self, module: nn.Module, inputs: Any) -> ReplicaCall:
        tensors = {name: attrgetter(name)(module) for name in self.own}
        given = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)]
        rows = next((leaf for leaf in given if leaf.dim() and leaf.is_floating_point()), None)
        call = ReplicaCall(
            first_row=int(rows.flatten()[0]) if rows is not None and rows.numel() else 0,
            num_rows=0 if rows is None else len(rows),
            places={name: place_of(tensor) for name, tensor in tensors.items()},
            input_places=[place_of(leaf) for leaf in given if leaf.numel()],
            modes=modes_now(),
            is_training=module.training,
        )
        call.leaves = [
            name
            for name, tensor in tensors.items()
            if tensor.requires_grad and tensor.is_leaf and tensor is not self.own[name]
        ]
        call.thawed = [n for n, t in tensors.items() if t.requires_grad and not self.own[n].requires_grad]
        call.cast = [name for name, tensor in tensors.items() if tensor.dtype != self.own[name].dtype]
        with self.lock:
            self.calls.append(call)
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
            named = [*tensors.items(), *(("a part of the batch", leaf) for leaf in given)]
            self.seen += [(name, StorageWeakRef(tensor.untyped_storage())) for name, tensor in named]
        return call

    def meet(self, module: nn.Module, call: ReplicaCall) -> None:
        """Waits for the other replicas; then looks at its own weights again, which nobody else may have changed."""
        if self.rendezvous is None:
            return
        self.met = self.rendezvous.arrive() and self.met
        call.mixed = any(place_of(attrgetter(name)(module)) != place for name, place in call.places.items())

    def gives(self, out: Any) -> None:
        """An output of a replica is to go with it, once it has been joined to the others."""
        new = [("an output", StorageWeakRef(t.untyped_storage())) for t in tree_leaves(out) if isinstance(t, Tensor)]
        with self.lock:
            self.seen += new

    def end(self, call: ReplicaCall) -> None:
        number = call.first_row // max(1, self.rows_each)
        if self.rendezvous is not None and self.met:
            (self.rendezvous.leave_first if self.early else self.rendezvous.leave)(number)
        with self.lock:
            self.running -= 1
            self.num_done += 1
        if self.rendezvous is not None:
            self.rendezvous.left(number)

    def alive(self, *ours: Any) -> list[str]:
        """What replicas computed with and somebody still holds, beside the module's own and ``ours``."""
        known = {*self.own_places.values(), *(place_of(leaf) for leaf in tree_leaves(ours) if isinstance(leaf, Tensor))}
        return sorted({name for name, one in self.seen if not one.expired() and one.cdata not in known})


def modes_now() -> tuple[bool, bool, bool, str]:
    """Of this thread: whether it records, inference, autocast on a CPU and its dtype."""
    mixed = torch.is_autocast_enabled("cpu")
    dtype = str(torch.get_autocast_dtype("cpu")) if mixed else ""
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), mixed, dtype


class WatchedRoot(nn.Module):
    """A root around ``inner``: what calls of it or of its replicas see is noted in the trace of the moment."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not _now:
            return self.inner(*args, **kwargs)
        trace = _now[-1]
        with _uncounted():
            call = trace.begin(self, (args, kwargs))
            try:
                trace.meet(self, call)
                out = self.inner(*args, **kwargs)
                trace.gives(out)
                return out
            finally:
                trace.end(call)


@contextlib.contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Calls of watched modules are noted there, in any thread."""
    _now.append(trace)
    try:
        yield trace
    finally:
        _now.remove(trace)


def _named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def place_of(tensor: Tensor) -> int:
    """The memory that a tensor lies in; a view lies in that of its whole."""
    return tensor.untyped_storage()._cdata


def bytes_of_tensors(*things: Any) -> int:
    """The bytes of all tensors in modules and nested things, each counted once."""
    tensors: list[Tensor] = []
    for thing in things:
        is_module = isinstance(thing, nn.Module)
        tensors += [*thing.parameters(), *thing.buffers()] if is_module else tree_leaves(thing)
    return sum({id(one): one.nbytes for one in tensors if isinstance(one, Tensor)}.values())


# -- the meter ----------------------------------------------------------------------------------------------------

_of_thread = threading.local()


@contextlib.contextmanager
def _uncounted() -> Iterator[None]:
    """What a replica computes is no copy."""
    before, _of_thread.computes = getattr(_of_thread, "computes", False), True
    try:
        yield
    finally:
        _of_thread.computes = before


class _Meter(TorchDispatchMode):
    """Adds up, in the thread that enters it, the bytes of memory that operators make outside the replicas' forward."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not getattr(_of_thread, "computes", False):
            known = {place_of(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
            made = {place_of(leaf): leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)}
            with self.trace.lock:
                new = [leaf.nbytes for place, leaf in made.items() if place not in known]
                self.trace.made_bytes += sum(new)
                self.trace.num_made += len(new)
        return result


@contextlib.contextmanager
def threads_metered(trace: Trace) -> Iterator[None]:
    """Memory that operators make is added up in ``trace.made_bytes``: of this thread, and of those that it starts."""
    run = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def metered(thread: threading.Thread) -> None:
        with _Meter(trace):
            run(thread)

    threading.Thread._bootstrap_inner = metered  # type: ignore[attr-defined]
    try:
        with _Meter(trace):
            yield
    finally:
        threading.Thread._bootstrap_inner = run  # type: ignore[attr-defined]
