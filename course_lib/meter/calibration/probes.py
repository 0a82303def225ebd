"""The short experiments of a calibration. They run on ranks, so that the calling process never touches a GPU.

Each counts what it moves or computes: a product of two n x n matrices is 2 n^3 floating point operations; a
copy of s bytes moves 2 s (read and written). The fastest of several repetitions stands for what the device
can do, since other work on the machine can only slow it down; a message's time is the median, since that is
what a message takes.

Verified on the CPU with gloo. The GPU branches follow the same steps with ``torch.cuda.synchronize``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from course_lib.cluster.base.rank import Rank

if TYPE_CHECKING:
    import torch

__all__ = ["DTYPES", "MESSAGE_SIZES", "Rates", "measure_message_times", "measure_rates"]

DTYPES = ("float32", "bfloat16", "float64")
MESSAGE_SIZES = (1, 64, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20)
_MIB = 1 << 20


@dataclass(frozen=True)
class Rates:
    """What one device did: matmul rate by dtype name, copy bandwidth, and the largest relative spread."""

    device: str
    matmul_flops_per_s: dict[str, float]
    memory_bandwidth_bytes_per_s: float
    spread: float


def measure_rates(me: Rank, *, threads: int = 1, on_gpu: bool = False) -> Rates | None:
    """Rank 0 measures its device alone while the others wait; they return None.

    ``threads`` is the number of CPU threads; ``on_gpu`` measures ``me.device`` instead of the CPU.
    """
    import torch
    import torch.distributed as dist

    rates = None
    if me.rank == 0:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            rates = _rates_of(me.device if on_gpu else torch.device("cpu"), threads)
        finally:
            torch.set_num_threads(before)
    dist.barrier()
    return rates


def _rates_of(device: torch.device, threads: int) -> Rates:
    import torch

    flops_per_s, spreads = {}, []
    for name in DTYPES:
        n = _matrix_size(device, name)
        left = torch.rand(n, n, device=device).to(getattr(torch, name))
        times = repeat_times(lambda a=left: a @ a, device)
        flops_per_s[name] = 2 * n**3 / min(times)
        spreads.append(spread(times))
    size_bytes = copy_size_bytes(device)
    source = torch.ones(size_bytes, dtype=torch.uint8, device=device)
    target = torch.ones_like(source)  # written once, so that no page is new in the timed copies
    times = repeat_times(lambda: target.copy_(source), device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _cores_text(threads)
    return Rates(name, flops_per_s, 2 * size_bytes / min(times), max([*spreads, spread(times)]))


def measure_message_times(me: Rank, *, rounds: int = 40, other: int = 1) -> list[tuple[int, float]]:
    """Rank 0 and rank ``other`` pass a message back and forth, for each size of ``MESSAGE_SIZES``.

    Returns (size in bytes, one-way time in seconds) pairs; rank 0's count. Gloo sends no CUDA tensors from
    point to point, so there the message lies in main memory.
    """
    import torch

    device = me.device if me.backend == "nccl" else torch.device("cpu")
    samples = []
    for size in MESSAGE_SIZES:
        message = torch.zeros(size, dtype=torch.uint8, device=device)
        count = rounds if size <= _MIB else max(6, rounds // 5)
        samples.append((size, median(_ping_pong(me, message, count, other)) / 2))
    return samples


def _ping_pong(me: Rank, message: torch.Tensor, count: int, other: int) -> list[float]:
    """Times of ``count`` round trips in seconds, after three that are not counted."""
    import torch.distributed as dist

    times = []
    for turn in range(3 + count):
        _wait_for(message.device)
        start_s = time.perf_counter()
        if me.rank == 0:
            dist.send(message, other)
            dist.recv(message, other)
        elif me.rank == other:
            dist.recv(message, 0)
            dist.send(message, 0)
        _wait_for(message.device)
        if turn >= 3:
            times.append(time.perf_counter() - start_s)
    return times


def repeat_times(
    work: Callable[[], object], device: torch.device, *, budget_s: float = 0.15, at_least: int = 3
) -> list[float]:
    """Times of repeated runs of ``work`` in seconds, after one uncounted, until the budget is spent."""
    work()
    times: list[float] = []
    while len(times) < at_least or sum(times) < budget_s:
        _wait_for(device)
        start_s = time.perf_counter()
        work()
        _wait_for(device)
        times.append(time.perf_counter() - start_s)
    return times


def spread(times: list[float]) -> float:
    """Distance between the quartiles over the median: 0 for a quiet machine, 0.3 and more for a busy one."""
    low, middle, high = quantiles(times, n=4, method="inclusive")
    return (high - low) / middle


def copy_size_bytes(device: torch.device, caches: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """The size of a copy that no cache holds: four times the last, from 64 to 256 MiB; 512 MiB on a GPU."""
    if device.type == "cuda":
        return 512 * _MIB
    sizes = [_kib_text_bytes(file) for file in caches.glob("index*/size")]
    return min(max(4 * max(sizes, default=0), 64 * _MIB), 256 * _MIB)


def _kib_text_bytes(file: Path) -> int:
    """Read "32768K" or "32M" as bytes; 0 where it is neither."""
    try:
        text = file.read_text().strip()
    except OSError:
        return 0
    unit = {"K": 1024, "M": _MIB, "G": 1024 * _MIB}.get(text[-1:], 0)
    return int(text[:-1]) * unit if text[:-1].isdigit() else 0


def _matrix_size(device: torch.device, dtype_name: str) -> int:
    """Rows of the test matrix: big enough to reach the device's rate, small enough to take milliseconds."""
    if device.type == "cuda":
        return 2048 if dtype_name == "float64" else 8192
    return 512


def _cores_text(threads: int) -> str:
    return "1 core" if threads == 1 else f"{threads} cores"


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)
