"""The memory ledger: every live byte of a rank under one label, at each moment and at the peak.

    with MemoryLedger(model, optimizer, inputs=(x, y)) as ledger:
        loss = loss_of(model(x), y)
        ledger.mark("after forward")
        loss.backward()
        optimizer.step()
    print(ledger.marks["after forward"], ledger.peak(), sep="\\n")

What is seen: the storages that the model, the optimizer and the inputs own, and every storage that an
operation inside the block reads or makes. What is not: scratch space inside one kernel, which on a CPU nobody
counts and on a GPU shows as the difference to the allocator. Sizes are ``UntypedStorage.nbytes()``; a storage
counts whole, however small the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from course_lib.meter.memory.balance import LABELS, Balance, Entry, History, check_label
from course_lib.meter.memory.other_threads import settle
from course_lib.meter.memory.storages import Snapshot, StorageBook, StorageWatch, resizes_seen_by

__all__ = ["LABELS", "Balance", "Entry", "History", "MemoryLedger", "ledger"]

Optimizers = Optimizer | Sequence[Optimizer] | None


class MemoryLedger:
    """Labels every live storage while the block runs; one ledger at a time in a thread.

    ``inputs`` are tensors (or nested lists and dicts of them) to be labelled *input*; the arguments of
    ``model(...)`` are labelled so by themselves. A storage saved for the backward pass is an *activation*,
    unless it already is something else: weights and the batch are saved too, but cost nothing more. An
    optimizer's tensors that are not the model's own parameters (float32 master copies) are *optimizer state*.
    ``history=False`` drops the curve, for very long blocks.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        optimizer: Optimizers = None,
        *,
        inputs: Any = (),
        rank: int = 0,
        history: bool = True,
    ) -> None:
        self.rank = rank
        self.marks: dict[str, Balance] = {}
        self._model, self._optimizers = model, _as_tuple(optimizer)
        self._book, self._where = StorageBook(keep_events=history), list[str]()
        self._keep_history, self._mark_indices = history, list[tuple[str, int]]()
        self._stack: ExitStack | None = None
        self._allocator_peak_bytes: int | None = None  # of the block, once it is over
        self._claim_owned()
        self.own("input", inputs)
        self._start = len(self._book.events)

    def __enter__(self) -> MemoryLedger:
        if self._stack is not None:
            raise ValueError("this ledger is or was in use; a ledger serves one block: make another one")
        with ExitStack() as stack:
            stack.callback(self._where.clear)
            for handle in self._hooks():
                stack.callback(handle.remove)
            device = self._cuda_device()
            if device is not None:
                torch.cuda.reset_peak_memory_stats(device)
            stack.enter_context(saved_tensors_hooks(self._book.save, lambda saved: saved.tensor))
            stack.enter_context(StorageWatch(self._book, self._where))
            stack.enter_context(resizes_seen_by(self._book))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._stack is not None
        self._stack.close()
        device = self._cuda_device()
        if device is not None:  # kept now: later work, or the next ledger, moves the allocator's mark
            self._allocator_peak_bytes = torch.cuda.max_memory_allocated(device)
        self._claim_owned()

    def own(self, label: str, value: Any, *, name: str = "") -> None:
        """Label the storages under ``value`` by hand. An unknown label is a ``ValueError``."""
        self._book.claim(check_label(label), name or label, value)

    def mark(self, name: str) -> Balance:
        """Name this moment: its balance is returned and kept in ``marks``."""
        balance = self.marks[name] = self.now(name)
        self._mark_indices.append((name, len(self._book.events)))
        return balance

    def now(self, when: str = "now") -> Balance:
        """What is live at this moment. After the block: what is left of all that was seen."""
        self._claim_owned()
        return self._balance(when, self._book.now(), torch.cuda.memory_allocated)

    def peak(self) -> Balance:
        """What was live when the sum was largest."""
        self._claim_owned()
        return self._balance("at the peak", self._book.peak(), self._allocator_peak)

    def history(self) -> History:
        """Bytes by label after every birth or death of a storage. Its largest total is the peak's."""
        if not self._keep_history:
            raise ValueError("this ledger kept no history: it was made with history=False")
        self._claim_owned()
        points, indices = _replay(self._book.events)
        first = indices[self._start]  # the block begins when all that is owned has been entered
        marks = tuple((name, indices[index] - first) for name, index in self._mark_indices)
        return History(self.rank, points[first:], marks)

    def _balance(self, when: str, snapshot: Snapshot, allocator: Callable[[torch.device], int]) -> Balance:
        device = self._cuda_device()
        if device is None:
            return Balance(when, self.rank, snapshot.entries())
        return Balance(when, self.rank, snapshot.entries(), allocator(device), str(device))

    def _allocator_peak(self, device: torch.device) -> int:
        kept = self._allocator_peak_bytes
        return torch.cuda.max_memory_allocated(device) if kept is None else kept

    def _cuda_device(self) -> torch.device | None:
        """The GPU that the model lies on. Written from the documentation, not run on a GPU so far."""
        devices = {p.device for _, p in _parameters(self._model, self._optimizers) if p.is_cuda}
        return min(devices, key=str) if devices else None

    def _claim_owned(self) -> None:
        settle()
        for label, name, tensor in _owned(self._model, self._optimizers):
            self._book.claim(label, name, tensor, is_settled=True)

    def _hooks(self) -> Iterator[Any]:
        """Hooks that catch gradients and optimizer states at their birth, and know the running module."""
        for name, parameter in _parameters(self._model, self._optimizers):
            if parameter.requires_grad and not is_lazy(parameter):
                yield parameter.register_post_accumulate_grad_hook(
                    lambda p, name=f"{name}.grad": self._book.claim("gradient", name, p.grad)
                )
        for optimizer in self._optimizers:
            yield optimizer.register_step_post_hook(lambda *_: self._claim_owned())
        if self._model is None:
            return
        yield self._model.register_forward_pre_hook(
            lambda _, args, kwargs: self._book.claim("input", "input", (args, kwargs)), with_kwargs=True
        )
        for name, module in self._model.named_modules():
            enter = name or "model"
            yield module.register_forward_pre_hook(lambda *_, enter=enter: self._where.append(enter))
            yield module.register_forward_hook(lambda *_: _pop(self._where), always_call=True)


def ledger(model: nn.Module | None, optimizer: Optimizers = None, *, inputs: Any = (), rank: int = 0) -> Balance:
    """What a model, its gradients, its optimizer and the inputs hold right now; no block needed."""
    return MemoryLedger(model, optimizer, inputs=inputs, rank=rank).now()


def _pop(where: list[str]) -> None:
    if where:
        where.pop()


def _as_tuple(optimizer: Optimizers) -> tuple[Optimizer, ...]:
    if optimizer is None:
        return ()
    return (optimizer,) if isinstance(optimizer, Optimizer) else tuple(optimizer)


def _parameters(model: nn.Module | None, optimizers: Iterable[Optimizer]) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and parameters of the model, then of the optimizers where they hold others."""
    seen: set[int] = set()
    if model is not None:
        for name, parameter in model.named_parameters():
            seen.add(id(parameter))
            yield name, parameter
    for optimizer in optimizers:
        for g, group in enumerate(optimizer.param_groups):
            for i, parameter in enumerate(group["params"]):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield f"group {g} parameter {i}", parameter


def _owned(model: nn.Module | None, optimizers: Sequence[Optimizer]) -> Iterator[tuple[str, str, Any]]:
    """Label, name and tensor of all that a model and its optimizers hold."""
    own = {id(p) for p in model.parameters()} if model is not None else None
    names = {}
    for name, parameter in _parameters(model, optimizers):
        names[id(parameter)] = name
        yield "parameter" if own is None or id(parameter) in own else "optimizer state", name, parameter
        yield "gradient", f"{name}.grad", parameter.grad
    if model is not None:
        for name, buffer in model.named_buffers():
            yield "buffer", name, buffer
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            of = names.get(id(parameter), "unknown")
            for key, value in state.items():
                yield "optimizer state", f"{of}.{key}", value


def _replay(events: list[Any]) -> tuple[tuple[tuple[int, ...], ...], list[int]]:
    """The state after each birth or death, and for each number of events passed, its point."""
    sums, labels, saved = dict.fromkeys(LABELS, 0), dict[Any, str](), set[Any]()
    points: list[tuple[int, ...]] = []
    indices = [0]
    for kind, record in events:
        if kind in ("born", "died"):
            points.append(tuple(sums.values()))
        old = labels.pop(record, None)
        if old is not None:
            sums[old] -= record.size_bytes
        if kind == "saved":
            saved.add(record)
        elif kind == "released":
            saved.discard(record)
        if kind != "died":
            labels[record] = record.label(record in saved)
            sums[labels[record]] += record.size_bytes
        indices.append(len(points))
    points.append(tuple(sums.values()))
    return tuple(points), indices
