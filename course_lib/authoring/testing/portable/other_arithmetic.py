"""Imported by the kernels and ranks of ``course test portable``: arithmetic as another machine might do it.

``COURSE_ARITHMETIC`` says what, with commas between; without it nothing changes.

- ``nudged``: products of matrices, sums, means and normal random numbers come out with other last bits, as they do
  where vector units, libraries or the order of a sum are other ones. A number stays as it is where it is so short (3.0,
  or 0.25) that it was computed exactly, on any machine. Equal results are nudged alike, so what is equal to the last
  bit stays so.
- ``threads=2``: so many threads for each rank, whatever its cluster asks for.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import torch

from course_lib.authoring.testing.portable.variable import VARIABLE

__all__ = ["apply", "nudge"]

# By dtype: the integer of its size; the last bits to change, up to 5 units in the last place; and the bits that are
# all zero in a short number.
_BITS = {torch.float32: (torch.int32, 0b101, 0xF), torch.float64: (torch.int64, 0b101, 0xF)}
_HALVES = (torch.bfloat16, torch.float16)
# Each has a way to write into `out`, a kernel of its own, which is left as it is and does the work.
_OPERATORS = {
    "mm": "out", "addmm": "out", "bmm": "out", "baddbmm": "out", "sum.dim_IntList": "IntList_out", "mean.dim": "out",
}  # fmt: skip


def nudge(result: torch.Tensor) -> torch.Tensor:
    """Change the last bits of these numbers, in place; of those in 16 bits, the last bit of one in eight."""
    if result.dtype in _BITS:
        integer, change, short = _BITS[result.dtype]
        bits = result.view(integer)
        bits ^= torch.where((bits & short) != 0, change, 0).to(integer)
    elif result.dtype in _HALVES:
        bits = result.view(torch.int16)
        bits ^= ((bits & 0b111) == 0b101).to(bits.dtype)
    return result


def apply(words: str) -> None:
    """Change this process's arithmetic, and that of all that are forked from it.

    Raises:
        ValueError: A word that is not known.
    """
    for word in filter(None, words.split(",")):
        name, _, number = word.partition("=")
        if name == "threads" and number.isdecimal():
            _fix_threads(int(number))
        elif word == "nudged":
            _nudge_all()
        else:
            raise ValueError(f"{VARIABLE} has the word {word!r}; it knows nudged and threads=NUMBER.")


def _fix_threads(count: int) -> None:
    set_threads = torch.set_num_threads
    vars(torch)["set_num_threads"] = lambda _: set_threads(count)


def _nudge_all() -> None:
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are replaced, which is the purpose
        for operator, into in _OPERATORS.items():
            original = getattr(getattr(torch.ops.aten, operator.partition(".")[0]), into)
            library.impl(operator, _nudged_product(original), "CPU")
    vars(torch)["randn"] = _nudged_draw(torch.randn)
    type.__setattr__(torch.Tensor, "normal_", _nudged_draw(torch.Tensor.normal_))
    # The replaced kernels live as long as this does; this module itself is forgotten in kernels of notebooks.
    vars(torch)["_other_arithmetic"] = library


def _nudged_product(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def compute(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        whole = kwargs.get("dtype") is None and not tensor.dtype.is_floating_point and not tensor.dtype.is_complex
        dtype = torch.int64 if whole else kwargs.get("dtype") or tensor.dtype  # a sum of whole numbers, or of flags
        return nudge(original(tensor, *args, **kwargs, out=torch.empty(0, dtype=dtype)))

    return compute


def _nudged_draw(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``torch.randn`` and ``normal_``, whose kernel has no second way in."""

    def compute(*args: Any, **kwargs: Any) -> torch.Tensor:
        drawn = draw(*args, **kwargs)
        if drawn.device.type == "cpu" and drawn.is_contiguous():
            nudge(drawn.detach())
        return drawn

    return compute


apply(os.environ.get(VARIABLE, ""))
