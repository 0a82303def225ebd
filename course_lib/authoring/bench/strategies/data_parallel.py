"""``course bench data_parallel``: threads of one process against processes, on the same batch.

One worker takes the whole batch, k threads and k processes a k-th each, in turns, with one core for each worker and
nothing exchanged. What differs is the interpreter's lock, which threads share: it shows where layers are many and
small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.authoring.bench.options import bench_parser, count, open_table
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster

if TYPE_CHECKING:
    from torch import Tensor, nn

    Build = Callable[[], tuple[nn.Module, Tensor]]

__all__ = ["few_large_layers", "main", "many_small_layers"]


def main(arguments: list[str]) -> int:
    parser = bench_parser("data_parallel", __doc__, rounds=25, of="turns")
    parser.add_argument("--workers", type=count, default=2, help="threads, and processes (default 2)")
    options = parser.parse_args(arguments)
    from course_lib.parallel.data import interpreter_lock

    with open_table(options) as table:
        print(f"(the lock of this Python interpreter is {interpreter_lock()})")
        with Cluster(options.workers) as cluster:
            for name, build in MODELS.items():
                for backward in (False, True):
                    add_race(table, cluster, name, build, backward, options.rounds)
    return 0


def many_small_layers() -> tuple[nn.Module, Tensor]:
    """100 linear layers of width 32: much Python, little arithmetic. 256 rows."""
    import torch
    from torch import nn

    return nn.Sequential(*(nn.Linear(32, 32) for _ in range(100))), torch.ones(256, 32)


def few_large_layers() -> tuple[nn.Module, Tensor]:
    """2 linear layers of width 1024: little Python, much arithmetic. 512 rows."""
    import torch
    from torch import nn

    return nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(2))), torch.ones(512, 1024)


MODELS = {"many small layers": many_small_layers, "few large layers": few_large_layers}


def add_race(table: Table, cluster: Cluster, name: str, build: Build, backward: bool, rounds: int) -> None:
    """Five lines: the time of each, and the two speed-ups."""
    from course_lib.parallel.data import threads_or_processes

    steps = 10 if build is many_small_layers else 3
    race = threads_or_processes(cluster, build, backward=backward, steps=steps, rounds=rounds)
    what, k = f"{name}, {'forward and backward' if backward else 'forward'}", race.num_workers
    many = {f"{k} threads": race.threads_s, f"{k} processes": race.processes_s}
    for who, times_s in {"1 worker": race.one_s, **many}.items():
        table.add(f"{what}: {who}", [1e3 * time_s for time_s in times_s], "ms")
    table.add(f"{what}: speed-up of {k} threads (fastest rounds)", [race.threads_speed_up], "x")
    table.add(f"{what}: speed-up of {k} processes (fastest rounds)", [race.processes_speed_up], "x")
