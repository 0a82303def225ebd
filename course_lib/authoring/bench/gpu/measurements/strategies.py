"""Step ``strategies``: a step of every strategy beside PyTorch's own, in turns, within one run.

The benches of the strategies do the work, here on GPUs and with larger models beside the small ones. Where ranks share
one GPU, they share its arithmetic too: the ratio of the two ways says something there, their times less. The promises
are those of the benches: DDP at most 1.05 of PyTorch's time, a pipeline 1.0, a block cut in two 0.9 of DTensor's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.authoring.bench.gpu.measurements.backends import backends_for
from course_lib.authoring.bench.gpu.task import NOT_RUN, BenchTask
from course_lib.authoring.bench.strategies import collectives, ddp, pipeline, tensor
from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.meter.clocks.stopwatch import Comparison, compare

__all__ = ["run"]

_NUM_RANKS = 2
_MOST_OF_A_CALL_S = 150.0
_COLLECTIVES = ("all_reduce, ring", "all_gather", "reduce_scatter")

# what is measured, the function of the ranks, its arguments but the rounds, the other's name, and the promise
Trial = tuple[str, Callable[..., Comparison], tuple[Any, ...], str, float | None]


def run(task: BenchTask) -> None:
    """Three rows for each strategy and back end."""
    _data_parallel(task)
    for backend in backends_for(task, _NUM_RANKS):
        with Cluster(_NUM_RANKS, backend=backend) as cluster:
            for trial in _trials(task):
                _add(task, cluster, backend, trial)


def _trials(task: BenchTask) -> list[Trial]:
    """Small models everywhere; larger ones on GPUs."""
    on_gpu = task.on_gpu
    found: list[Trial] = []
    for name in (*ddp.MODELS, *([ddp.WIDE] if on_gpu else [])):
        found.append((f"DDP, {name}", ddp.paired_steps, (name,), "torch", 1.05))
    if on_gpu:
        found.append(("SyncBatchNorm, forward and backward", paired_batch_norm, (), "torch", None))
    for kind in ("gpipe", "1f1b", "interleaved"):
        found.append((f"pipeline, {kind}", pipeline.paired_steps, (kind,), "torch", 1.0))
    for width, length in ((128, 128), *([(1024, 1024)] if on_gpu else [])):
        for sequence_parallel in (False, True):
            what = f"block {width} wide" + (", sequence parallel" if sequence_parallel else "")
            promised = None if sequence_parallel else 0.9
            found.append((what, tensor.paired, (width, length, sequence_parallel), "DTensor", promised))
    size_bytes = (64 if on_gpu else 4) * 2**20
    found += [
        (f"{name}, {size_bytes >> 20} MiB", collectives.paired, (name, size_bytes), "torch", None)
        for name in _COLLECTIVES
    ]
    return found


def _add(task: BenchTask, cluster: Cluster, backend: str, trial: Trial) -> None:
    what, function, arguments, other, promised = trial
    why = _why_not_by_gloo(trial) if backend == "gloo" and task.on_gpu else ""
    if why:
        task.tell(f"{what}, {backend}", NOT_RUN, why)
        return
    with task.part(f"{what}, {backend}"):
        limit_s = task.limit_s(_MOST_OF_A_CALL_S)
        both = cluster.call(function, (*arguments, task.rounds), timeout_s=limit_s, show=False)[0]
        target = None if promised is None else task.target(promised)
        task.table.add_pair(f"{what}, {backend}", both, ratio=f"course / {other}", target=target)


def _why_not_by_gloo(trial: Trial) -> str:
    """Why gloo cannot carry PyTorch's side of a trial between ranks on a GPU; empty where it can."""
    _, function, arguments, _, _ = trial
    if function is pipeline.paired_steps:
        return "torch.distributed.pipelining sends tensors of the GPU, which gloo cannot: needs NCCL"
    if function is tensor.paired and arguments[-1]:  # sequence parallel
        # c10d::allgather_into_tensor_coalesced_: alone of gloo's collectives here, it does not ask for the device
        return (
            "DTensor gathers the parts of a sequence by a collective that gloo has for the CPU alone: it reads an "
            "address of the GPU as one of the host, and its process crashes; needs NCCL"
        )
    return ""


def paired_batch_norm(me: Rank, rounds: int) -> Comparison:
    """On each rank: forward and backward of PyTorch's SyncBatchNorm and of the course's, in turns."""
    import torch

    from course_lib.parallel.data import SyncBatchNorm

    x = torch.randn(32, 256, 28, 28, device=me.device, requires_grad=True)
    layers = [layer.to(me.device) for layer in (torch.nn.SyncBatchNorm(256), SyncBatchNorm(me, 256))]

    def turn(layer: torch.nn.Module) -> Callable[[], None]:
        def both_passes() -> None:
            x.grad = None
            layer(x).square().mean().backward()

        return both_passes

    turns = [turn(layer) for layer in layers]
    return compare_on_ranks(*turns, names=("torch", "the course"), rounds=rounds, device=me.device)


def _data_parallel(task: BenchTask) -> None:
    """nn.DataParallel and the course's, in this very process."""
    if not task.has_gpus("nn.DataParallel and the course's", 2):
        return
    import torch
    from torch import nn

    from course_lib.parallel.data import DataParallel

    with task.part("nn.DataParallel and the course's"):
        torch.manual_seed(0)
        layers = [part for _ in range(8) for part in (nn.Linear(2048, 2048), nn.ReLU())]
        model = nn.Sequential(*layers).to("cuda:0")
        x = torch.randn(4096, 2048, device="cuda:0")
        wrapped = (nn.DataParallel(model, [0, 1]), DataParallel(model, ["cuda:0", "cuda:1"]))

        def turn(module: nn.Module) -> Callable[[], None]:
            return lambda: module(x).square().mean().backward()

        turns = [turn(module) for module in wrapped]
        both = compare(*turns, names=("torch", "the course"), rounds=task.rounds, device="cuda:0")
        task.table.add_pair("DataParallel, 2 GPUs", both)
