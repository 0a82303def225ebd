"""The trial of what a high utilisation is said to mean: a process that sends nothing to anybody, and how busy its GPU
looks.

The driver's utilisation is the share of the last moments in which at least one kernel ran (NVIDIA, NVML API reference,
``nvmlUtilization_t``): whether that kernel did much, waited for memory, or for another GPU, it does not say.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import torch
from torch import nn

from course_lib.claims.court.evidence import Evidence, Ranks, blocked, tries
from course_lib.cluster.base.rank import Rank

__all__: list[str] = []

_WIDTH, _NUM_LAYERS = 8192, 4  # 1.1 GB of weights, and as much of gradients
_MANY = 4096  # samples of a step, beside one
_RUN_S, _READ_EVERY_S = 4.0, 0.25  # the driver looks back for up to a second
_QUEUE = 10  # steps
_QUIET, _HIGH, _SPARE, _SLOW = 0.1, 0.9, 0.5, 10.0


@dataclass(frozen=True)
class _Looks:
    """What one sees of a GPU from outside while a process trains on it, and what comes out."""

    utilisation: float  # 0 to 1, by the driver
    free_memory: float  # of all
    samples_per_s: float


@dataclass(frozen=True)
class _Seen:
    """Before anything ran, and while the same model trained with few and with many samples a step."""

    before: float  # utilisation
    few: _Looks
    many: _Looks


def _train(me: Rank, model: nn.Module, inputs: torch.Tensor, run_s: float) -> _Looks:
    """Steps for some seconds, with readings in the later half; they do not wait for the queue of kernels."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    readings, steps = [], 0
    torch.cuda.synchronize(me.device)
    began_s = read_s = time.perf_counter()
    while (now_s := time.perf_counter()) < began_s + run_s:
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        if steps % _QUEUE == 0:
            torch.cuda.synchronize(me.device)  # so that the queue stays short
        if now_s > began_s + run_s / 2 and now_s > read_s + _READ_EVERY_S:
            readings.append(torch.cuda.utilization(me.device) / 100)
            read_s = now_s
    torch.cuda.synchronize(me.device)
    passed_s = time.perf_counter() - began_s
    free_bytes, all_bytes = torch.cuda.mem_get_info(me.device)
    return _Looks(median(readings or [0.0]), free_bytes / all_bytes, steps * len(inputs) / passed_s)


def _look(
    me: Rank, width: int = _WIDTH, num_samples: tuple[int, int] = (1, _MANY), run_s: float = _RUN_S
) -> _Seen | str:
    """The three situations on this rank's GPU, or why the driver does not tell."""
    try:
        before = torch.cuda.utilization(me.device) / 100
    except Exception as error:  # pynvml has kinds of its own: no permission, not supported on a slice of a GPU
        return f"{type(error).__name__}: {error}"
    torch.manual_seed(0)
    layers = [nn.Linear(width, width, bias=False) for _ in range(_NUM_LAYERS)]
    model = nn.Sequential(*layers).to(me.device)
    few, many = (_train(me, model, torch.ones(number, width, device=me.device), run_s) for number in num_samples)
    return _Seen(before, few, many)


@tries("E4")
def busy_with_memory_to_spare_and_slow_points_at_communication(ranks: Ranks) -> Evidence:
    """One process trains on one GPU and sends nothing: can it look like that all the same?"""
    seen = ranks(1).run(_look)[0]
    if isinstance(seen, str):
        return blocked(f"the driver does not report how busy this GPU is: {seen}")
    if seen.before > _QUIET:
        return blocked(f"something else runs on this GPU, busy for {seen.before:.0%} of the time before the trial")
    slower = seen.many.samples_per_s / seen.few.samples_per_s
    has_it = seen.few.utilisation > _HIGH and seen.few.free_memory > _SPARE and slower > _SLOW
    if not has_it:
        return blocked(
            f"this GPU was busy for {seen.few.utilisation:.0%} of the time, had {seen.few.free_memory:.0%} of its "
            f"memory free, and was {slower:.0f} times slower than with large batches. The claim speaks of more than "
            f"{_HIGH:.0%}, more than {_SPARE:.0%} and more than {_SLOW:g} times"
        )
    return Evidence(
        "misleading",
        {"processes": 1, "bytes sent": 0, "busy, with memory to spare, and slow": has_it},
        timings={
            f"utilisation, {_MANY} samples a step": f"{seen.many.utilisation:.0%}",
            "utilisation, 1 sample a step": f"{seen.few.utilisation:.0%}",
            "memory free, 1 sample a step": f"{seen.few.free_memory:.0%}",
            f"samples a second with {_MANY} a step, times those with 1": f"{slower:.0f}",
        },
        because="the utilisation says that some kernel ran, and not what it did. Here each step reads all weights for "
        "one sample, and nothing is sent. A kernel of NCCL that waits for another GPU counts as busy too",
        turns_if="the utilisation came as a timeline of kernels: if kernels of collectives fill most of a step, "
        "communication is the cause",
    )
