"""Warm calls in turns, in one process: the course on one machine, agents by ssh, agents within ipyparallel."""

from __future__ import annotations

import statistics
import time

from measure_agent import Group
from workload import WORLD_SIZE, nothing, reduce_1k, say

from course_lib.cluster import Cluster


def main() -> None:
    local = Cluster(WORLD_SIZE)
    ways = {"one machine": local.run}
    for kind in ("ssh", "ipyparallel"):
        ways[f"agents by {kind}"] = Group(kind).run
    for function in (nothing, reduce_1k):
        took: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(51):
            for way, run in ways.items():
                began = time.perf_counter()
                run(function)
                took[way].append((time.perf_counter() - began) * 1e3)
        for way, times in took.items():
            ratio = statistics.median(b / a for a, b in zip(took["one machine"], times, strict=True))
            least, middle = min(times), statistics.median(times[1:])
            say(f"{function.__name__}, {way}", f"{middle:.1f} ms, least {least:.1f}, ratio to one machine {ratio:.2f}")
    local.close()


if __name__ == "__main__":
    main()
    import os

    os._exit(0)
