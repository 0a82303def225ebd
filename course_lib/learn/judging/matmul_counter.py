"""Counts the multiplications of numbers in products, for judges that ask how much, and when, an answer computes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Products"]

_LEFT_SIDE = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "vdot": 0, "matmul": 0, "linear": 0}
_LEFT_SIDE |= {"addmm": 1, "baddbmm": 1, "addmv": 1}
_NUMBER_BY_NUMBER = {"mul", "addcmul", "addr", "ger", "outer"}


class Products(TorchDispatchMode):
    """``with Products() as products: ...`` counts those that PyTorch runs inside, whoever asks for them.

    ``multiplications`` is the same whether a product of matrices is written as one, as a sum of outer products or
    with broadcasting; ``recorded`` are those of them that autograd could go back through. What NumPy or Python computes
    is not seen. It stands here, and not with the exercise: a line of an exercise would pass for the learner's in a
    report.
    """

    def __init__(self) -> None:
        super().__init__()
        self.multiplications = self.recorded = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__.removesuffix("_") if args else ""
        count = 0
        if name in _LEFT_SIDE:
            count = made.numel() * args[_LEFT_SIDE[name]].shape[-1]
        elif name in _NUMBER_BY_NUMBER:
            count = made.numel()
        self.multiplications += count
        if torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in args):
            self.recorded += count
        return made
