"""Trials of what is said about ``nn.DataParallel``: what it splits, what it changes, what its threads cost.

PyTorch's own does nothing on a CPU, so trials that need no GPU run the course's, which makes the same four steps with
replicas on the CPU.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.timing_noise import ThresholdLine, too_busy
from course_lib.claims.court.workloads import batch, mlp
from course_lib.claims.data_parallel.turn_taking import processes_get_on, threads_get_on
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.data import DataParallel, threads_or_processes

__all__: list[str] = []

_NUM_REPLICAS = 4


class _Seen(nn.Module):
    """A model that notes in which thread it is called, with how many samples, and how many weights it has."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.calls = mlp(), list[tuple[str, int, int]]()

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = self.model(inputs)
        num_weights = sum(layer.weight.numel() for layer in self.model if isinstance(layer, nn.Linear))
        self.calls.append((threading.current_thread().name, len(inputs), num_weights))
        return outputs


@tries("C1")
def nn_dataparallel_splits_the_batch_and_not_the_model(ranks: Ranks) -> Evidence:
    """What do four replicas hold, and how many of 32 samples does each see?"""
    seen = _Seen()
    DataParallel(seen, ["cpu"] * _NUM_REPLICAS)(batch(32)[0])
    samples, held = [count for _, count, _ in seen.calls], {weights for _, _, weights in seen.calls}
    whole = sum(layer.weight.numel() for layer in seen.model if isinstance(layer, nn.Linear))
    return Evidence(
        "holds" if sum(samples) == 32 and max(samples) < 32 and held == {whole} else "false",
        {
            "samples by replica, of 32": ", ".join(map(str, sorted(samples))),
            f"weights of each replica, of {whole}": ", ".join(map(str, held)),
        },
        because="scatter cuts the batch, replicate copies the whole model",
        turns_if="a replica had a part of the weights alone, as under ZeRO-3 or tensor parallelism",
    )


def _samples_of_a_ddp_rank(me: Rank) -> int:
    seen = _Seen()
    nn.parallel.DistributedDataParallel(seen)(batch(32)[0])
    return seen.calls[0][1]


@tries("C7")
def batch_size_32_means_32_on_each_gpu(ranks: Ranks) -> Evidence:
    """The same loader of 32 samples under nn.DataParallel and under DDP, on four devices."""
    seen = _Seen()
    DataParallel(seen, ["cpu"] * _NUM_REPLICAS)(batch(32)[0])
    by_replica = {count for _, count, _ in seen.calls}
    by_rank = set(ranks(_NUM_REPLICAS).run(_samples_of_a_ddp_rank))
    return Evidence(
        "holds" if by_replica == {32} else "false",
        {
            "nn.DataParallel, samples on each of 4": ", ".join(map(str, by_replica)),
            "DDP, samples on each of 4": ", ".join(map(str, by_rank)),
        },
        because="nn.DataParallel gets the whole batch and cuts it. Under DDP each process has a loader of its own, and "
        "the whole batch is four times as large",
        turns_if="the claim spoke of DDP: each process has a loader of its own, and gets 32 samples from it",
    )


class _Mean(nn.Module):
    """A model that returns its loss, as some do."""

    def __init__(self) -> None:
        super().__init__()
        self.model = mlp()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.model(inputs).square().mean()


@tries("D4")
def nn_dataparallel_needs_no_change_to_the_loop(ranks: Ranks) -> Evidence:
    """An ordinary step, a last batch of 5 on four devices, a model that returns its loss, and the saved keys."""
    devices = ["cpu"] * _NUM_REPLICAS
    plain, wrapped = mlp(), DataParallel(mlp(), devices)
    inputs, classes = batch(32)
    for model in (plain, wrapped):
        nn.functional.cross_entropy(model(inputs), classes).backward()
    same = all(
        torch.allclose(p.grad, q.grad, atol=1e-12)  # type: ignore[arg-type]
        for p, q in zip(plain.parameters(), wrapped.parameters(), strict=True)
    )
    seen = _Seen()
    DataParallel(seen, devices)(batch(5)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = DataParallel(_Mean(), devices)(batch(10)[0])
    first_key = next(iter(wrapped.state_dict()))
    changes = len(seen.calls) < _NUM_REPLICAS or loss.dim() > 0 or first_key.startswith("module.")
    return Evidence(
        ("holds with conditions" if changes else "holds") if same else "false",
        {
            "gradients as on one device": same,
            "replicas that work on a last batch of 5": f"{len(seen.calls)} of {_NUM_REPLICAS}",
            "a scalar loss comes back with shape": tuple(loss.shape),
            "first saved key": first_key,
        },
        because="the ordinary loop runs unchanged. A loss computed inside the model comes back as a vector. A small "
        "last batch leaves devices idle, and saved keys have other names",
        turns_if="the loss was computed outside the model, every batch had a sample for each device, and nothing was "
        "saved (then it holds)",
    )


def _many_small_layers() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(60)]
    return nn.Sequential(*layers), torch.ones(32, 16)


def _is_locked() -> bool:
    """Whether threads of this interpreter run Python one at a time."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def _few_large_layers() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)), torch.ones(256, 512)


_NO_LOCK = "Python had no interpreter lock, as a free-threaded build has none"


def _speeds(cluster: Cluster, **builds: Callable[[], tuple[nn.Module, Tensor]]) -> dict[str, str]:
    """How fast two threads and two processes are beside one worker; nothing is told where ranks had no core."""
    line = ThresholdLine(cluster)
    races = {name: threads_or_processes(cluster, build, steps=1, rounds=10) for name, build in builds.items()}
    if too_busy(line.share()):
        return {"two workers beside one": "not timed, the machine is too busy"}
    return {
        f"{name} layers, two {kind}": f"{speed_up:.2f}x of one worker"
        for name, race in races.items()
        for kind, speed_up in (("threads", race.threads_speed_up), ("processes", race.processes_speed_up))
    }


@tries("C2")
def ddp_is_faster_because_it_uses_processes(ranks: Ranks) -> Evidence:
    """While one worker stays in Python, or in one large operator: does another get on? Two threads, two processes."""
    threads_in_python = threads_get_on(beside_operator=False)
    processes_in_python = processes_get_on(ranks(2))
    threads_in_operator = threads_get_on(beside_operator=True)
    better = processes_in_python and not threads_in_python
    return Evidence(
        ("holds with conditions" if threads_in_operator else "holds") if better else "false",
        {
            "one runs Python, a second thread gets on": threads_in_python,
            "one runs Python, a second process gets on": processes_in_python,
            "one is in a large operator, a second thread gets on": threads_in_operator,
            "an interpreter lock": _is_locked(),
        },
        timings=_speeds(ranks(2), small=_many_small_layers, large=_few_large_layers),
        because="threads of one interpreter take turns in running Python, and processes do not. A model of few large "
        "layers spends little time in Python",
        turns_if=f"{_NO_LOCK}, or a model had only large layers (then it is false), or only small ones (then it holds)"
        if better
        else "threads took turns in running Python, as on a build with an interpreter lock",
    )


@tries("D7")
def nn_dataparallel_is_limited_by_python_threads(ranks: Ranks) -> Evidence:
    """In how many processes and threads do four replicas run, and does one get on while another runs Python?"""
    seen, pids = _Seen(), set()
    seen.register_forward_hook(lambda *_: pids.add(os.getpid()))
    DataParallel(seen, ["cpu"] * _NUM_REPLICAS)(batch(32)[0])
    get_on = threads_get_on(beside_operator=False)
    return Evidence(
        "holds" if len(pids) == 1 and not get_on else "false",
        {
            "processes": len(pids),
            "threads": len({thread for thread, _, _ in seen.calls}),
            "one runs Python, a second thread gets on": get_on,
            "an interpreter lock": _is_locked(),
        },
        timings=_speeds(ranks(2), small=_many_small_layers),
        because="nn.DataParallel runs in one process, and a usual build of Python has one lock for its threads. A "
        "free-threaded build has none",
        turns_if="Python had an interpreter lock, as a usual build has one" if get_on else _NO_LOCK,
    )


def _on_the_gpu(model: Any) -> tuple[str, str]:
    """Where the weights and the outputs are."""
    outputs = model(batch(8)[0].cuda())
    return str(next(model.parameters()).device), str(outputs.device)


@tries("C4")
def moving_after_wrapping_is_an_error(ranks: Ranks) -> Evidence:
    """Wrap first, move to the GPU then; and the other way round."""
    late = _on_the_gpu(nn.DataParallel(mlp()).cuda())
    early = _on_the_gpu(nn.DataParallel(mlp().cuda()))
    return Evidence(
        "false" if late == early else "holds",
        {"weights, outputs, moved after wrapping": ", ".join(late), "moved before": ", ".join(early)},
        because="the wrapper is a module like any other: to move it is to move the model inside it",
        turns_if="the wrapper copied the weights when it was made. It makes its replicas anew at every forward pass",
    )


@tries("D6")
def the_first_gpu_uses_the_most_memory(ranks: Ranks) -> Evidence:
    """Peak memory by GPU over two steps of nn.DataParallel with AdamW."""
    num_gpus = torch.cuda.device_count()
    model = nn.DataParallel(mlp(width=4096).cuda())  # before CUDA is in use there is no peak to reset
    for gpu in range(num_gpus):
        torch.cuda.reset_peak_memory_stats(gpu)
    optimizer = torch.optim.AdamW(model.parameters())
    inputs, classes = (part.cuda() for part in batch(1024))
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()
    peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in range(num_gpus)]
    kept = [torch.cuda.memory_allocated(gpu) for gpu in range(num_gpus)]
    is_first = peaks[0] > max(peaks[1:])
    return Evidence(
        "holds" if is_first else "false",
        {"GPUs": num_gpus, "the first has the highest peak": is_first},
        timings={"peak bytes by GPU": peaks, "bytes between steps by GPU": kept},
        because=(
            "only the first GPU keeps weights, gradients and optimizer state, and nn.DataParallel gathers outputs there"
        )
        if is_first
        else "here a replica needed more for its step than the first GPU keeps",
        turns_if="each GPU kept its own weights and optimizer state, as under DDP (then it is false), or activations "
        "were small beside them (then it holds)",
    )
