"""How fast a run is, beside how fast its devices could be: the share of the peak, or model FLOPs utilization (MFU)."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import NamedTuple

import torch
import torch.distributed as dist

from .start import Rank, of_all
from .transformer import NUM_BYTE_VALUES

__all__ = ["Peak", "flops_per_token", "peak_of"]

_COMPUTES_IN = {"float32": torch.float32, "bf16": torch.bfloat16, "float64": torch.float64}


class Peak(NamedTuple):
    """What all ranks together could compute in a second."""

    flops_per_s: float
    name: str  # where the number is from

    def __str__(self) -> str:
        return f"{self.flops_per_s / 1e12:.3g} TFLOP/s on all ranks, by {self.name}"


def flops_per_token(args: argparse.Namespace) -> int:
    """Floating-point operations of a forward and a backward, for one byte of text.

    As Chowdhery et al., "PaLM" (2022), appendix B: two of the forward and four of the backward for each weight of a
    product, and 12 for each channel and byte that attention looks at, as if it looked at those to come too. What
    ``--recompute`` does a second time does not count: it is not the model's.
    """
    weights = args.layers * 12 * args.width**2 + args.width * NUM_BYTE_VALUES
    return 6 * weights + 12 * args.layers * args.width * args.context


def peak_of(me: Rank, args: argparse.Namespace) -> Peak:
    """What ``--peak-tflops`` says; without it, what a product of large matrices reaches on all ranks at once."""
    if args.peak_tflops:
        return Peak(args.peak_tflops * 1e12 * me.world_size, "--peak-tflops")
    flops_per_s = _measured_flops_per_s(me, args.precision)
    if me.device.type == "cuda":  # the matrices are none of the run's memory, which its log tells of
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return Peak(sum(of_all(me, flops_per_s)), "a measured product of matrices")


def _measured_flops_per_s(me: Rank, precision: str) -> float:
    """The median of five. All ranks measure at the same time: those that share cores share the rate."""
    size = 512
    if me.device.type == "cuda":
        size = 4096 if precision == "float64" else 8192  # three matrices, beside the model: 768 MiB at most
    a, b, product = (torch.ones(size, size, dtype=_COMPUTES_IN[precision], device=me.device) for _ in range(3))
    dist.barrier()
    times_s = []
    for _ in range(6):
        start_s = time.perf_counter()
        torch.mm(a, b, out=product)
        if me.device.type == "cuda":
            torch.cuda.synchronize(me.device)
        times_s.append(time.perf_counter() - start_s)
    return 2 * size**3 / statistics.median(times_s[1:])  # the first warms up
