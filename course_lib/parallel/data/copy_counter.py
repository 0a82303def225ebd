"""How many bytes are copied from device to device: every tensor that an operator moves, added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["CopyCounter"]


class CopyCounter(TorchDispatchMode):
    """Counts, while its block runs, what ``tensor.to(device, copy=True)`` copies.

    ::

        with CopyCounter() as copied:
            replicas = replicate(model, ["cpu"] * 4)
        copied.size_bytes, copied.num_tensors

    It sees this thread and the backward passes that it starts. A copy from the CPU to itself counts, because in this
    course it stands for one from device to device; a change of dtype, and a copy into memory that exists, do not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.size_bytes = 0
        self.num_tensors = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default:
            source: Tensor = args[0]
            if source.dtype == result.dtype:
                self.size_bytes += result.nbytes
                self.num_tensors += 1
        return result
