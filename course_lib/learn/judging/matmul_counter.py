"""Counts the multiplications of numbers in products, for judges that ask how much, and when, an answer computes."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Products"]

_LEFT_SIDE = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "vdot": 0, "matmul": 0, "linear": 0}
_LEFT_SIDE |= {"addmm": 1, "baddbmm": 1, "addmv": 1}
_NUMBER_BY_NUMBER = {"mul", "addcmul", "addr", "ger", "outer"}


class Products(TorchDispatchMode):
    """``with Products() as products: ...`` counts those that PyTorch runs inside, whoever asks for them.

    ``multiplications`` is the same whether a product of matrices is written as one, as a sum of outer products or
    with broadcasting. What NumPy or Python computes is not seen. It stands here, and not with the exercise: a line
    of an exercise would pass for the learner's in a report.
    """

    def __init__(self) -> None:
        super().__init__()
        self.multiplications = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__.removesuffix("_") if args else ""
        if name in _LEFT_SIDE:
            self.multiplications += made.numel() * args[_LEFT_SIDE[name]].shape[-1]
        elif name in _NUMBER_BY_NUMBER:
            self.multiplications += made.numel()
        return made
