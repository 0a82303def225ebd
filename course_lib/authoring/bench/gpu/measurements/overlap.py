"""Step ``overlap``: how much of DDP's all-reduces hides behind the backward pass, by the course and by PyTorch.

Four ways of one training step in turns: the bare model, which sends nothing; PyTorch's DDP; the course's; and the
course's without overlap, whose all-reduces begin when backward is over. What a way takes longer than the bare model is
exposed. Of what is exposed without overlap, a share is hidden with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

from course_lib.authoring.bench.gpu.measurements.backends import backends_for
from course_lib.authoring.bench.gpu.task import BenchTask
from course_lib.authoring.bench.strategies import ddp
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.meter.clocks.stopwatch import median_interval

if TYPE_CHECKING:
    from torch import nn

__all__ = ["run", "steps_s"]

_NUM_RANKS = 2
_BARE, _TORCH, _COURSE, _LATE = "without DDP", "torch", "the course", "the course without overlap"
_LEAST_EXPOSED = 0.05  # of a bare step; below, a share of it would be noise
_PROMISED_RATIO = 1.05


def run(task: BenchTask) -> None:
    """Rows for each back end: the four times, what is exposed, and what is hidden."""
    model = ddp.WIDE if task.on_gpu else ddp.MODELS[1]
    for backend in backends_for(task, _NUM_RANKS):
        with task.part(f"overlap, {backend}"):
            with Cluster(_NUM_RANKS, backend=backend, timeout_s=task.left_s) as cluster:
                by_way = cluster.call(steps_s, (model, task.rounds), show=False)[0]
            _add(task, backend, by_way)


def _add(task: BenchTask, backend: str, by_way: dict[str, list[float]]) -> None:
    for way, times in by_way.items():
        task.table.add(f"step, {way}, {backend}", [1e3 * time_s for time_s in times], "ms")
    exposed = {
        way: [one - bare for one, bare in zip(by_way[way], by_way[_BARE], strict=True)]
        for way in (_TORCH, _COURSE, _LATE)
    }
    for way, times in exposed.items():
        task.table.add(f"exposed, {way}, {backend}", [1e3 * time_s for time_s in times], "ms")
    whole_s = median(exposed[_LATE])
    if median_interval(exposed[_LATE])[0] > _LEAST_EXPOSED * median(by_way[_BARE]):
        for way in (_TORCH, _COURSE):
            hidden = [100 * (1 - time_s / whole_s) for time_s in exposed[way]]
            task.table.add(f"hidden of what is exposed without overlap, {way}, {backend}", hidden, "%")
    else:
        task.notes[f"overlap, {backend}"] = "too little is exposed without overlap for a share of it to mean much"
    ratios = [ours / theirs for ours, theirs in zip(by_way[_COURSE], by_way[_TORCH], strict=True)]
    task.table.add(f"step, course / torch, {backend}", ratios, "x", target=task.target(_PROMISED_RATIO))


def steps_s(me: Rank, model: str, rounds: int) -> dict[str, list[float]]:
    """On each rank: the time of a step each way, in turns; that of the slowest rank."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as TorchDDP

    from course_lib.parallel.data import DistributedDataParallel

    wraps: dict[str, Callable[[nn.Module], nn.Module]] = {
        _BARE: lambda whole: whole,
        _TORCH: TorchDDP,
        _COURSE: lambda whole: DistributedDataParallel(me, whole),
        _LATE: lambda whole: DistributedDataParallel(me, whole, overlap=False),
    }
    ways = {}
    for name, wrap in wraps.items():
        torch.manual_seed(0)
        ways[name] = ddp.training(me, model, wrap)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-2, rounds):  # the first two are not counted: there torch finds its order of buckets
        for name in list(ways)[:: 1 if number % 2 else -1]:
            dist.barrier()
            _wait(me)
            began_s = time.perf_counter()
            ways[name]()
            _wait(me)
            longest = torch.tensor(time.perf_counter() - began_s, dtype=torch.float64, device=me.device)
            dist.all_reduce(longest, dist.ReduceOp.MAX)
            if number >= 0:
                found[name].append(longest.item())
    return found


def _wait(me: Rank) -> None:
    import torch

    if me.device.type == "cuda":
        torch.cuda.synchronize(me.device)
