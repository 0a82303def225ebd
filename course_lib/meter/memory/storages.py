"""The book behind the memory ledger: every storage seen, from its birth to its death, and who holds it.

PyTorch keeps bytes in *storages*; tensors are windows on them. A view shares the storage of its base, tied
weights share one, so only storages can be counted without counting twice. The book holds no tensor alive: it
keeps weak references and is called back at the moment when a storage is freed, which makes the peak exact and
not a matter of sampling.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from course_lib.meter.memory.balance import LABELS, Entry, sort_entries
from course_lib.meter.memory.other_threads import settle

__all__ = ["Snapshot", "StorageBook", "StorageRecord", "StorageWatch", "resizes_seen_by", "storages_of"]

_PRIORITY = {label: index for index, label in enumerate(LABELS)}
_BY_ROW, _BY_COLUMN = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
_PARTS_OF_SPARSE = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: _BY_ROW,
    torch.sparse_bsr: _BY_ROW,
    torch.sparse_csc: _BY_COLUMN,
    torch.sparse_bsc: _BY_COLUMN,
}


def storages_of(value: Any) -> Iterator[torch.UntypedStorage]:
    """All storages under a tensor or a nested list, tuple or dict of them; none for a meta tensor."""
    for leaf in [value] if isinstance(value, torch.Tensor) else tree_leaves(value):
        if not isinstance(leaf, torch.Tensor) or is_lazy(leaf):  # a lazy parameter has no storage yet
            continue
        if is_traceable_wrapper_subclass(leaf):  # DTensor and its like: the bytes are in the tensors inside
            names, _ = leaf.__tensor_flatten__()
            yield from storages_of([getattr(leaf, name) for name in names])
        elif leaf.layout in _PARTS_OF_SPARSE:
            yield from storages_of([getattr(leaf, part)() for part in _PARTS_OF_SPARSE[leaf.layout]])
        elif leaf.device.type != "meta" and torch._C._has_storage(leaf):
            yield leaf.untyped_storage()


class StorageRecord:
    """One storage in the book. ``owner`` is the label it was claimed under, ``None`` while unclaimed."""

    __slots__ = ("device", "foreign", "handle", "name", "owner", "recomputed", "size_bytes")

    def __init__(self, storage: torch.UntypedStorage, *, name: str, foreign: bool, recomputed: bool) -> None:
        self.size_bytes = storage.nbytes()
        self.device = str(storage.device)
        self.name = name
        self.owner: str | None = None
        self.foreign = foreign
        self.recomputed = recomputed
        self.handle: weakref.ref[torch.UntypedStorage] | None = None

    def label(self, saved: bool) -> str:
        """The label of this storage at a moment when it was, or was not, saved for a backward pass."""
        if self.owner is not None:
            return self.owner
        if saved:
            return "input" if self.foreign else "activation"
        return "activation" if self.recomputed else "other"


class Snapshot:
    """Which storages were live at a moment, and which of them saved. Labels are read late."""

    def __init__(self, records: dict[int, StorageRecord], saved: dict[int, int]) -> None:
        self._records = dict(records)
        self._saved = frozenset(saved)

    def entries(self) -> tuple[Entry, ...]:
        """One entry for each storage."""
        return sort_entries(
            Entry(record.label(key in self._saved), record.name, record.size_bytes, record.device)
            for key, record in self._records.items()
        )


class StorageBook:
    """Live storages by address, the saved ones among them, the peak, and the list of events."""

    def __init__(self, *, keep_events: bool = True) -> None:
        self._keep_events = keep_events
        self.live: dict[int, StorageRecord] = {}
        self.saved: dict[int, int] = {}
        self.total_bytes = 0
        self.peak_bytes = 0
        self.events: list[tuple[str, StorageRecord]] = []
        self._peak: Snapshot | None = None

    def see(
        self,
        storage: torch.UntypedStorage,
        name: str,
        *,
        foreign: bool,
        recomputed: bool = False,
        is_settled: bool = False,
    ) -> StorageRecord:
        """Enter a storage, unless it is known; one whose size has changed is entered anew.

        ``is_settled``: other threads have let go this moment (``settle``), and nothing was begun since.
        """
        key = storage._cdata
        known = self.live.get(key)
        if known is not None and known.size_bytes == storage.nbytes():
            return known
        if not is_settled and self.total_bytes + storage.nbytes() > self.peak_bytes:
            settle()  # what another thread is about to free is no part of a peak
        record = StorageRecord(storage, name=name, foreign=foreign, recomputed=recomputed)
        if known is not None:
            record.name, record.owner, record.foreign = known.name, known.owner, known.foreign
            record.recomputed = known.recomputed
            self._remove(key)
        record.handle = weakref.ref(storage, lambda _, key=key: self._remove(key))  # type: ignore[misc]
        self.live[key] = record
        self.total_bytes += record.size_bytes
        self._note("born", record)
        if self.total_bytes > self.peak_bytes:
            self.peak_bytes = self.total_bytes
            self._peak = None  # drawn up when the next storage dies, or when somebody asks
        return record

    def knows(self, storage: torch.UntypedStorage) -> bool:
        return storage._cdata in self.live

    def claim(self, label: str, name: str, value: Any, *, is_settled: bool = False) -> None:
        """Say what the storages under ``value`` are for; the earlier of ``LABELS`` wins, then the first."""
        for storage in storages_of(value):
            record = self.see(storage, name, foreign=True, is_settled=is_settled)
            if record.owner is None or _PRIORITY[label] < _PRIORITY[record.owner]:
                record.owner, record.name = label, name

    def save(self, tensor: torch.Tensor) -> _Saved:
        """Note that a backward pass keeps ``tensor``; the note ends with the object returned."""
        keys = []
        for storage in storages_of(tensor):
            record = self.see(storage, "saved for backward", foreign=True)
            key = storage._cdata
            self.saved[key] = self.saved.get(key, 0) + 1
            self._note("saved", record)
            keys.append(key)
        # Detached: the tensor itself would lead back to the graph that holds this note, and neither would ever go.
        return _Saved(self, tuple(keys), tensor.detach())

    def release(self, keys: tuple[int, ...]) -> None:
        """A saved tensor was let go of."""
        for key in keys:
            left = self.saved.get(key, 0) - 1
            if left > 0:
                self.saved[key] = left
                continue
            self._close_peak()
            self.saved.pop(key, None)
            record = self.live.get(key)
            if record is not None:
                self._note("released", record)

    def now(self) -> Snapshot:
        """What is live at this moment."""
        settle()
        return Snapshot(self.live, self.saved)

    def peak(self) -> Snapshot:
        """What was live when the sum was largest (the first time, if it was so large more than once)."""
        self._close_peak()
        return self._peak if self._peak is not None else self.now()

    def _note(self, event: str, record: StorageRecord) -> None:
        if self._keep_events:
            self.events.append((event, record))

    def _close_peak(self) -> None:
        if self._peak is None and self.total_bytes == self.peak_bytes:
            self._peak = Snapshot(self.live, self.saved)

    def _remove(self, key: int) -> None:
        self._close_peak()
        record = self.live.pop(key, None)
        if record is not None:
            record.handle = None
            self.total_bytes -= record.size_bytes
            self._note("died", record)


class _Saved:
    """What autograd keeps for a saved tensor while a ledger is open: the tensor and a note in the book."""

    __slots__ = ("book", "keys", "tensor")

    def __init__(self, book: StorageBook, keys: tuple[int, ...], tensor: torch.Tensor) -> None:
        self.book, self.keys, self.tensor = book, keys, tensor

    def __del__(self) -> None:
        self.book.release(self.keys)


class StorageWatch(TorchDispatchMode):
    """Shows every operation's tensors to a book; ``where`` is the stack of running modules."""

    def __init__(self, book: StorageBook, where: list[str]) -> None:
        super().__init__()
        self._book = book
        self._where = where

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and note what it read and what it made."""
        kwargs = kwargs or {}
        for storage in storages_of((args, kwargs)):
            self._book.see(storage, "made before the block", foreign=True)
        result = func(*args, **kwargs)
        # In a backward pass gradients are not recorded, unless a forward pass is being recomputed there.
        in_backward = torch._C._current_graph_task_id() != -1
        recomputed = in_backward and torch.is_grad_enabled()
        where = self._where[-1] if self._where else "backward" if in_backward else "outside the model"
        name = f"{where}: {getattr(func, '__name__', str(func)).split('.')[0].strip('_')}"
        for storage in storages_of(result):
            self._book.see(storage, name, foreign=False, recomputed=recomputed)
        return result


@contextlib.contextmanager
def resizes_seen_by(book: StorageBook) -> Iterator[None]:
    """Enter a storage anew when its size changes: sharded training empties and fills those of its weights.

    ``UntypedStorage.resize_`` is no operation of PyTorch's, so ``StorageWatch`` does not see it.
    """
    plain = torch.UntypedStorage.resize_

    def resize_(storage: torch.UntypedStorage, size_bytes: int) -> Any:
        result = plain(storage, size_bytes)
        if book.knows(storage):
            book.see(storage, "resized", foreign=False)
        return result

    torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = plain  # type: ignore[method-assign]
