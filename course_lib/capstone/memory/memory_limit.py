"""The memory of a rank, weighed while it trains, and a run that is ended when it holds too much.

The memory ledger's book sees every storage that an operation reads or makes (``course_lib.meter.memory.memory``). Here
it has a limit, and it begins with every tensor that lives on the rank, whoever holds it: what a run keeps out of its
model counts as well.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from course_lib.meter.memory.balance import LABELS
from course_lib.meter.memory.storages import (
    Snapshot,
    StorageBook,
    StorageRecord,
    StorageWatch,
    resizes_seen_by,
    storages_of,
)
from course_lib.parallel.sharded.at_rest import StandIn

__all__ = ["OverMemory", "Weighing", "living", "parts_of"]


class OverMemory(Exception):
    """A rank held more than it may. ``parts``: what it was, bytes by the ledger's labels."""

    def __init__(self, rank: int, limit_bytes: int, parts: Mapping[str, int]) -> None:
        super().__init__(rank, limit_bytes, dict(parts))
        self.rank, self.limit_bytes, self.parts = rank, limit_bytes, dict(parts)

    def __str__(self) -> str:
        return f"rank {self.rank} holds {sum(self.parts.values()):,} bytes and may hold {self.limit_bytes:,}"


class Weighing:
    """A block of a rank's time in which every byte counts. Raises ``OverMemory`` where the limit is crossed.

    ``batch``: tensors to be labelled *input*.
    """

    def __init__(self, rank: int, limit_bytes: int, batch: Any = ()) -> None:
        self._book = _LimitedBook(rank, limit_bytes)
        self._batch = batch
        self._stack = ExitStack()

    def __enter__(self) -> Weighing:
        self._book.claim("input", "the batch", self._batch)
        self._claim()
        self._stack.enter_context(_Births(self._book, self._claim))
        self._stack.enter_context(saved_tensors_hooks(self._book.save, lambda saved: saved.tensor))
        self._stack.enter_context(StorageWatch(self._book, []))
        self._stack.enter_context(resizes_seen_by(self._book))
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()
        if exc[0] is None:
            self._claim()

    @property
    def over(self) -> OverMemory | None:
        """What was raised, also where somebody has caught it."""
        return self._book.over

    def peak(self) -> dict[str, int]:
        """The most that was held, by the ledger's labels."""
        return parts_of(self._book.peak())

    @property
    def left_bytes(self) -> int:
        """What lives now, whoever holds it."""
        return self._book.total_bytes

    def _claim(self) -> None:
        """Label what lives: weights, gradients, states by who uses them; the rest as it was made."""
        tensors, optimizers = living()
        for optimizer in optimizers:
            for state in optimizer.state.values():
                self._book.claim("optimizer state", "", list(state.values()))
        for tensor in tensors:
            if tensor.is_leaf and tensor.requires_grad:
                self._book.claim("parameter", "", tensor)
                self._book.claim("gradient", "", tensor.grad)
        for tensor in tensors:
            for storage in storages_of(tensor):
                self._book.see(storage, "", foreign=True)


class _LimitedBook(StorageBook):
    """Raises when more lives than may."""

    def __init__(self, rank: int, limit_bytes: int) -> None:
        super().__init__(keep_events=False)
        self.rank, self.limit_bytes = rank, limit_bytes
        self.over: OverMemory | None = None

    def see(self, storage: torch.UntypedStorage, name: str, **how: bool) -> StorageRecord:
        record = super().see(storage, name, **how)
        if self.total_bytes > self.limit_bytes:
            if self.over is None:
                self.over = OverMemory(self.rank, self.limit_bytes, parts_of(self.now()))
            raise self.over
        return record


def living() -> tuple[list[Tensor], list[Optimizer]]:
    """Tensors and optimizers that the collector knows, but for those that it was told to leave alone.

    Stand-ins for rows of a weight have no memory, and are no tensors to anybody who asks.
    """
    tensors, optimizers = [], []
    for one in gc.get_objects():
        kind = type(one)
        if issubclass(kind, Tensor) and not issubclass(kind, StandIn):
            tensors.append(one)
        elif issubclass(kind, Optimizer):
            optimizers.append(one)
    return tensors, optimizers


def parts_of(snapshot: Snapshot) -> dict[str, int]:
    """Bytes by label, those that there are."""
    sums = dict.fromkeys(LABELS, 0)
    for entry in snapshot.entries():
        sums[entry.label] += entry.size_bytes
    return {label: size for label, size in sums.items() if size}


class _Births:
    """Gradients and optimizer states are labelled when they are born."""

    def __init__(self, book: StorageBook, claim: Any) -> None:
        self._book, self._claim = book, claim

    def __enter__(self) -> None:
        self._handles: list[Any] = [register_optimizer_step_post_hook(lambda *_: self._claim())]
        for tensor in living()[0]:
            if tensor.is_leaf and tensor.requires_grad:
                self._handles.append(tensor.register_post_accumulate_grad_hook(self._on_gradient))

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _on_gradient(self, tensor: Tensor) -> None:
        self._book.claim("gradient", "", tensor.grad)
