"""Block-scaled quantization, and an all-gather of weights that sends one byte a number and one scale a block.

A block is a run of ``block_size`` numbers. Its scale is its largest amount divided by the largest number that a code
can be, 127 for int8 and 448 for float8 (e4m3). A code is the number divided by the scale, rounded. So an outlier
makes the steps of its own block coarse, and no other's. The last block may be shorter, and no padding is sent.

The caller keeps its numbers as they are: only what is sent is rounded, so errors of one step are not in the next. This
is the weights' half of ZeRO++ (Wang et al., 2023, section 3). In MX formats a block has 32 numbers, and a scale of one
byte, a power of two (Rouhani et al., 2023, section 2).

Shapes: n ranks; K numbers of a rank; B = ceil(K / block_size) blocks.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.base.checks import at_least
from course_lib.parallel.collectives.dim_collectives import start_all_gather
from course_lib.parallel.collectives.members import Members

__all__ = ["all_gather_quantized", "dequantize_blocks", "quantize_blocks"]

_LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}  # that a code can be


def quantize_blocks(numbers: Tensor, block_size: int, dtype: torch.dtype = torch.int8) -> tuple[Tensor, Tensor]:
    """Finite numbers (K,) -> codes (K,) of this dtype, int8 or float8_e4m3fn, and scales (B,), float32.

    Of int8 a code is off by at most half a scale. A block of zeros has codes of zero. ``ValueError`` for numbers that
    are not flat or not finite, and for another dtype.
    """
    _check_flat(numbers)
    at_least(1, block_size=block_size)
    if dtype not in _LARGEST:
        raise ValueError(f"a code has one byte, torch.int8 or torch.float8_e4m3fn; this is {dtype}")
    if not numbers.isfinite().all():
        raise ValueError("a block with inf or nan has no scale; quantize finite numbers")
    blocks = F.pad(numbers.detach().float(), (0, -len(numbers) % block_size)).view(-1, block_size)
    scales = (blocks.abs().amax(1, keepdim=True) / _LARGEST[dtype]).clamp_min(torch.finfo(torch.float32).tiny)
    codes = blocks / scales
    codes = codes.round() if dtype is torch.int8 else codes
    return codes.flatten()[: len(numbers)].to(dtype), scales.flatten()


def dequantize_blocks(codes: Tensor, scales: Tensor, block_size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Codes (K,) and scales (B,) -> numbers (K,). ``ValueError`` where scales are not one for each block."""
    _check_flat(codes)
    at_least(1, block_size=block_size)
    if scales.shape != (num_blocks := -(-len(codes) // block_size),):
        raise ValueError(
            f"{len(codes)} codes in blocks of {block_size} need {num_blocks} scales; the scales have the shape "
            f"{tuple(scales.shape)}"
        )
    return (codes.float() * scales.repeat_interleave(block_size)[: len(codes)]).to(dtype)


def all_gather_quantized(
    members: Members, numbers: Tensor, block_size: int = 256, dtype: torch.dtype = torch.int8
) -> Tensor:
    """Numbers (K,) of each rank -> those of all ranks, rounded, (n K,), in the dtype that they came in.

    Every rank gives as many, and all ranks get the same: a rank's own part is rounded too. Two messages: K bytes of
    codes and 4 B of scales go to each other rank.
    """
    codes, scales = quantize_blocks(numbers, block_size, dtype)
    finish_codes = start_all_gather(members, codes.view(torch.uint8), 0)  # gloo sends no float8
    finish_scales = start_all_gather(members, scales, 0)
    all_codes, all_scales = finish_codes().view(dtype), finish_scales()
    parts = zip(all_codes.chunk(members.count), all_scales.chunk(members.count), strict=True)
    return torch.cat([dequantize_blocks(*part, block_size, numbers.dtype) for part in parts])


def _check_flat(numbers: Tensor) -> None:
    if numbers.dim() != 1:
        raise ValueError(
            f"blocks are cut from a flat row, of shape (K,); this has the shape {tuple(numbers.shape)}: flatten it"
        )
