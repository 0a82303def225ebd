"""Counts products of matrices, for judges that ask how often, and when, an answer computes one."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Products"]

_PRODUCTS = ("mm", "addmm", "bmm", "matmul", "linear")


class Products(TorchDispatchMode):
    """``with Products() as products: ...`` counts those that PyTorch runs inside, whoever asks for them.

    It stands here, and not with the exercise: a line of an exercise would pass for the learner's in a report.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ in _PRODUCTS
        return func(*args, **(kwargs or {}))
