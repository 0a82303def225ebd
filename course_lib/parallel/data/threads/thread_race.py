"""Threads against processes: the same arithmetic by k threads of one process, and by k processes.

Nothing is exchanged here. Each worker has a model of its own and a k-th of the batch, goes forward and backward, and is
done. So what differs is one thing alone: threads share a Python interpreter, and on a usual build its lock (the GIL)
lets one of them at a time run Python. PyTorch releases the lock while an operator computes, so the lock costs little
where operators are large, and much where there is a lot of Python between many small ones.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster
    from course_lib.cluster.base.rank import Rank

__all__ = ["Race", "interpreter_lock", "threads_or_processes"]

Build = Callable[[], tuple[nn.Module, Tensor]]


@dataclass(frozen=True)
class Race:
    """Seconds for a step over the whole batch, one entry a round: by one worker, by k threads, by k processes."""

    num_workers: int
    one_s: tuple[float, ...]
    threads_s: tuple[float, ...]
    processes_s: tuple[float, ...]

    @property
    def threads_speed_up(self) -> float:
        """How many times as fast as one worker k threads are, by the fastest round of each: noise only lengthens."""
        return min(self.one_s) / min(self.threads_s)

    @property
    def processes_speed_up(self) -> float:
        """How many times as fast as one worker k processes are, by the fastest round of each."""
        return min(self.one_s) / min(self.processes_s)


def threads_or_processes(
    cluster: Cluster, build: Build, *, backward: bool = True, steps: int = 5, rounds: int = 7
) -> Race:
    """Let one worker, ``cluster.world_size`` threads and as many processes take the same step, in turns.

    ``build()`` makes a model and the whole batch (B, ...), the same at every call; a worker takes its k-th of the rows.
    A round is ``steps`` steps in a row, and its time is that of the slowest worker. Each worker computes with one core.
    """
    if steps < 1 or rounds < 1:
        raise ValueError(f"steps={steps} and rounds={rounds} must each be at least 1")
    k = cluster.world_size
    full, parts = _Worker(build, 0, 1, backward), [_Worker(build, r, k, backward) for r in range(k)]
    cluster.call(_in_rank, (build, backward, 1), show=False)  # the first calls of each way do not count
    _in_threads([full, *parts], 1)
    times = [
        (
            _in_threads([full], steps),
            _in_threads(parts, steps),
            max(cluster.call(_in_rank, (build, backward, steps), show=False)),
        )
        for _ in range(rounds)
    ]
    return Race(k, *zip(*times, strict=True))


def interpreter_lock() -> str:
    """Whether this Python has the lock: "on", "off" (a free-threaded build), in the words of the interpreter."""
    is_on = getattr(sys, "_is_gil_enabled", lambda: True)()  # Python 3.13 was the first that could be without
    return "on" if is_on else "off"


class _Worker:
    """One model and one part of the batch."""

    def __init__(self, build: Build, worker: int, num_workers: int, backward: bool) -> None:
        self.model, batch = build()
        self.part = batch.tensor_split(num_workers)[worker]
        self.backward = backward

    def work(self, steps: int) -> None:
        torch.set_num_threads(1)  # a new thread does not have its maker's setting
        with torch.set_grad_enabled(self.backward):
            for _ in range(steps):
                y = self.model(self.part)
                if self.backward:
                    y.sum().backward()


def _in_threads(workers: list[_Worker], steps: int) -> float:
    """Seconds a step, each worker in a thread."""
    threads = [threading.Thread(target=worker.work, args=(steps,)) for worker in workers]
    began_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - began_s) / steps


def _in_rank(me: Rank, build: Build, backward: bool, steps: int) -> float:
    """Seconds a step, on each rank, from the moment when all are ready."""
    worker = _Worker(build, me.rank, me.world_size, backward)
    worker.work(1)
    dist.barrier()
    began_s = time.perf_counter()
    worker.work(steps)
    return (time.perf_counter() - began_s) / steps
