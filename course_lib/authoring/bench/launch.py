"""``course bench launch``: what it costs to have ranks, by this course's cluster and by other launchers.

Every launcher does the same: start the ranks, all-reduce one number, hand the result to the caller. The launchers
take turns, so that a change of the machine's mood meets all of them. Other packages join where they are installed.
What is promised is a ratio in this run: to ``mp.spawn``, or to the machine's own floor (``floors.py``).
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

from course_lib.authoring.bench.floors import floors_of, has_forks
from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.authoring.bench.other_launchers import LAUNCHERS
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank

__all__ = ["main"]

RANKS = (2, 4)
RIVAL = "torch.multiprocessing.spawn"
# The most that is promised, as a ratio to what stands beside it in the same run: seconds, milliseconds and MB of one
# machine say nothing of another.
MOST = {"mp.spawn": 1.0, "forks": 1.5, "pipes": 10.0, "a fork": 2.0}


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
    parser.add_argument("--only-ours", action="store_true", help="leave out the launchers that no target stands on")
    options = parser.parse_args(arguments)
    with open_table(options) as table:
        for n in RANKS:
            measure_starts(table, n, options.rounds)
            measure_warm(table, n, options.rounds)
        times_s = [seconds(ddp_on_new_ranks) for _ in range(options.rounds)]
        table.add("restart + DDP + AdamW, two steps, 2 ranks", times_s, "s")
        if not options.only_ours:
            measure_others(table, max(2, options.rounds // 2))
    return 0


def measure_starts(table: Table, n: int, rounds: int) -> None:
    """First starts beside ``mp.spawn``, and later ones beside forks that do no more than join, in turns."""
    first, spawned, again, forked = [], [], [], []
    for _ in range(rounds):
        first.append(fresh_process(n))
        spawned.append(seconds(partial(LAUNCHERS[RIVAL], n)))
        again.append(seconds(partial(started_run, n)))
        if has_forks():
            forked.extend(floors_of(n, 1).joined_s)
    where = f"{n} ranks"
    rival = "mp.spawn"
    table.add_beside(f"first start, {where}", first, rival, spawned, "s", target=MOST[rival])
    if forked:
        table.add_beside(f"restart, {where}", again, "forks", forked, "s", target=MOST["forks"])
    else:
        table.add(f"restart, {where}", again, "s")


def measure_warm(table: Table, n: int, rounds: int) -> None:
    """Calls of ranks that stand, beside a word that goes to forks by pipes; and what a rank holds beside a fork."""
    where = f"{n} ranks"
    with Cluster(n) as cluster:
        cluster.call(nothing, show=False)
        calls_ms = [1e3 * seconds(partial(cluster.call, nothing, show=False)) for _ in range(40 * rounds)]
        with_sum_ms = [1e3 * seconds(partial(cluster.call, add_one_number, show=False)) for _ in range(40 * rounds)]
        pids = list(cluster.call(lambda me: os.getpid(), show=False))
        shares_mb = [psutil.Process(pid).memory_full_info().pss / 1e6 for pid in pids] if psutil.LINUX else []
    table.add(f"warm call with an all-reduce, {where}", with_sum_ms, "ms")
    if not has_forks():
        table.add(f"warm call, {where}", calls_ms, "ms")
        return
    floors = floors_of(n, rounds)
    beside = floors.round_trips_ms
    table.add_beside(f"warm call, {where}", calls_ms, "pipes", beside, "ms", target=MOST["pipes"])
    if shares_mb and floors.idle_mb:  # only Linux says how pages are shared
        what = f"memory of an idle rank (proportional share), {where}"
        table.add_beside(what, shares_mb, "a fork", floors.idle_mb, "MB", target=MOST["a fork"])


def measure_others(table: Table, rounds: int) -> None:
    """The same small job by other launchers, in turn."""
    others = {name: launch for name, launch in LAUNCHERS.items() if name != RIVAL}
    launchers = {name: launch for name, launch in others.items() if importlib.util.find_spec(name.partition(".")[0])}
    samples: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for n in RANKS:
            for name, launch in launchers.items():
                samples.setdefault((name, n), []).append(seconds(partial(launch, n)))
    for (name, n), times in samples.items():
        table.add(f"{name}, {n} ranks", times, "s")
    absent = [name for name in others if name not in launchers]
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
