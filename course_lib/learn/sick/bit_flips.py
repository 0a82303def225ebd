"""Planted bit flips: what a GPU does that computes wrongly and says nothing. Lesson 12.

Real faults are rarer and stranger. What is planted here is exact: this bit, of this number, in these calls.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from course_lib.base.checks import at_least, at_most

__all__ = ["FLOAT32_BITS", "flip_bit", "plant_in_products"]

FLOAT32_BITS = 32  # 0 to 22 are the fraction, the last digit first; 23 to 30 the exponent; 31 the sign


def flip_bit(tensor: Tensor, bit: int, place: int = 0) -> None:
    """Flip one bit of a float32 tensor, in place and unseen by autograd: of the number at ``place``, row by row.

    ``ValueError`` for another dtype, for a tensor with gaps, and for a bit or a place that is not there.
    """
    if tensor.dtype != torch.float32:
        raise ValueError(f"flip_bit is for float32, of which bit {bit} has a meaning here; this is a {tensor.dtype}")
    if not tensor.is_contiguous():
        raise ValueError("flip_bit is for a tensor that lies in memory in one piece; give tensor.contiguous()")
    if not tensor.numel():
        raise ValueError("flip_bit needs a number to flip a bit of, and this tensor has none")
    at_least(0, bit=bit, place=place)
    at_most(FLOAT32_BITS - 1, bit=bit)
    at_most(tensor.numel() - 1, place=place)
    mask = 1 << bit if bit < FLOAT32_BITS - 1 else -(1 << bit)  # as an int32
    tensor.detach().view(torch.int32).view(-1)[place] ^= mask


def plant_in_products(module: nn.Module, calls: Callable[[int], bool], bit: int = 22) -> RemovableHandle:
    """From now on ``module`` gives a wrong first number in the calls (counted from 0) for which ``calls`` is true.

    One bit of its output is flipped, by default the fraction's first: the number is off by at most a half. Returns the
    handle whose ``remove()`` takes the fault out.
    """
    count = -1

    def flip(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal count
        count += 1
        if calls(count):
            flip_bit(output, bit)

    return module.register_forward_hook(flip)
