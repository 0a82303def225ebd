"""How many bytes autograd keeps for backward passes to come, while an answer runs."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["Kept", "watch_kept"]


class Kept:
    """Bytes that autograd keeps now, and the most so far. What the model itself holds does not count."""

    def __init__(self, model: nn.Module) -> None:
        own = (*model.parameters(), *model.buffers())
        self._own = {tensor.untyped_storage().data_ptr() for tensor in own}
        self.now_bytes = self.most_bytes = 0

    def pack(self, tensor: Tensor) -> _Box:
        box = _Box(tensor)
        if tensor.untyped_storage().data_ptr() not in self._own:
            self.now_bytes += tensor.nbytes
            self.most_bytes = max(self.most_bytes, self.now_bytes)
            weakref.finalize(box, self._drop, tensor.nbytes)
        return box

    def _drop(self, size_bytes: int) -> None:
        self.now_bytes -= size_bytes


class _Box:
    """What autograd holds in place of a tensor; when it lets go of the box, the tensor is free."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()  # a saved output holds its graph: with it the box would hold itself


@contextmanager
def watch_kept(model: nn.Module) -> Iterator[Kept]:
    """Count what is kept for backward while the block runs."""
    kept = Kept(model)
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda box: box.tensor):
        yield kept
