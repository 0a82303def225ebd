"""``course bench launch``: what it costs to have ranks, by this course's cluster and by other launchers.

Every launcher does the same: start the ranks, all-reduce one number, hand the result to the caller. The launchers
take turns, so that a change of the machine's mood meets all of them. Other packages join where they are installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import psutil

from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.authoring.bench.other_launchers import LAUNCHERS
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank

__all__ = ["main"]


def add_one_number(me: Rank) -> float:
    import torch
    import torch.distributed as dist

    number = torch.tensor([float(me.rank)])
    dist.all_reduce(number)
    return number.item()


def nothing(me: Rank) -> int:
    return me.rank


def ddp_job(me: Rank) -> float:
    """Two steps of a small model by DDP and AdamW: the shortest job that imports what training imports."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 8)))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        loss = model(torch.ones(4, 32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main(arguments: list[str]) -> int:
    parser = bench_parser("launch", __doc__, rounds=5, of="samples of each start")
    parser.add_argument("--only-ours", action="store_true", help="leave the other launchers out")
    options = parser.parse_args(arguments)
    with open_table(options) as table:
        measure_ours(table, options.rounds)
        if not options.only_ours:
            measure_others(table, max(2, options.rounds // 2))
    return 0


def measure_ours(table: Table, rounds: int) -> None:
    first = {n: [fresh_process(n) for _ in range(rounds)] for n in (2, 4)}
    for n, samples in first.items():
        table.add(f"first start in a fresh process, {n} ranks", samples, "s", target=2.0)
    for n in (2, 4):
        table.add(
            f"restart, {n} ranks",
            [seconds(partial(started_run, n)) for _ in range(rounds)],
            "s",
            target=0.1,
        )
    table.add(
        "restart + DDP + AdamW, two steps, 2 ranks",
        [seconds(ddp_on_new_ranks) for _ in range(rounds)],
        "s",
        target=0.15,
    )
    for n in (2, 4):
        with Cluster(n) as cluster:
            cluster.call(nothing, show=False)
            calls = [1e3 * seconds(partial(cluster.call, nothing, show=False)) for _ in range(40 * rounds)]
            table.add(f"warm call, {n} ranks", calls, "ms", target=2.0)
            calls = [1e3 * seconds(partial(cluster.call, add_one_number, show=False)) for _ in range(40 * rounds)]
            table.add(f"warm call with an all-reduce, {n} ranks", calls, "ms")
            pids = list(cluster.call(lambda me: os.getpid(), show=False))
            if psutil.LINUX:  # only Linux tells how pages are shared
                share = [psutil.Process(pid).memory_full_info().pss / 1e6 for pid in pids]
                # The share of each grows as fewer ranks share the same pages: the promise is for four.
                limit = 60.0 if n == 4 else None
                table.add(f"memory of an idle rank (proportional share), {n} ranks", share, "MB", target=limit)


def measure_others(table: Table, rounds: int) -> None:
    """The same small job by other launchers, in turn."""
    launchers = {name: launch for name, launch in LAUNCHERS.items() if importlib.util.find_spec(name.partition(".")[0])}
    samples: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for n in (2, 4):
            for name, launch in launchers.items():
                samples.setdefault((name, n), []).append(seconds(partial(launch, n)))
    for (name, n), times in samples.items():
        table.add(f"{name}, {n} ranks", times, "s")
    absent = [name for name in LAUNCHERS if name not in launchers]
    if absent:
        print(f"not installed, so not measured: {', '.join(absent)}")


def seconds(do: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    do()
    return time.perf_counter() - began_s


def started_run(world_size: int) -> None:
    with Cluster(world_size) as cluster:
        cluster.call(add_one_number, show=False)


def ddp_on_new_ranks() -> None:
    with Cluster(2) as cluster:
        cluster.call(ddp_job, show=False)


def fresh_process(world_size: int) -> float:
    """A new Python: from the first mention of a cluster to the results, its own imports of torch not counted."""
    code = (
        "import time, json, warnings; warnings.simplefilter('ignore')\n"
        "from course_lib import Cluster\n"
        "from course_lib.authoring.bench.launch import add_one_number\n"
        f"began = time.perf_counter(); cluster = Cluster({world_size}); cluster.call(add_one_number, show=False)\n"
        "print(json.dumps(time.perf_counter() - began))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)
