"""``course bench links``: what was asked of shaped links, beside what comes out of them.

For each number of ranks and each operation, links of several bandwidths without latency, then of several
latencies with next to nothing to send. A time runs from the last rank that begins to the last that has finished;
each row is a median over rounds. The error is of the *effective* bandwidth (or latency): what a learner would work
out from the time and the bytes that the operation moves.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.link_times import link_time
from course_lib.cluster.links.links import Links
from course_lib.layouts.link import Link
from course_lib.meter.calibration.together import Spans, span_times, spans_of
from course_lib.meter.units import time_text

if TYPE_CHECKING:
    import torch

__all__ = ["main"]

WORLD_SIZES = (2, 4)
OPERATIONS = ("message", "all_reduce", "broadcast")
BANDWIDTHS_BYTES_PER_S = (10e6, 50e6, 200e6)
LATENCIES_S = (1e-3, 10e-3)
LINK_TIME_S = 0.05  # of one message over the link: the sizes follow from it
PROMISED_ERROR = 0.10


def main(arguments: list[str]) -> int:
    options = bench_parser("links", __doc__, rounds=3, of="passes over all links").parse_args(arguments)
    with open_table(options, head=False) as table:
        print(f"{'operation':12}{'ranks':>6}{'asked of the link':>20}{'time asked':>14}{'time taken':>14}{'error':>8}")
        errors: dict[str, list[float]] = {"bandwidth": [], "latency": []}
        for num_ranks in WORLD_SIZES:
            for kind, error in measure(num_ranks, options.rounds):
                errors[kind].append(100 * abs(error))
        print()
        table.print_head()
        table.add("error of the effective bandwidth", errors["bandwidth"], "%", target=100 * PROMISED_ERROR)
        table.add("error of the effective latency", errors["latency"], "%")
    return 0


def measure(num_ranks: int, rounds: int) -> list[tuple[str, float]]:
    """(kind, error of the effective number) for every link; prints a line for each."""
    rows = []
    with Cluster(num_ranks, links=Links(), timeout_s=120) as cluster:
        for link, size_bytes in _cases():
            with cluster.shaped(links=Links(link)):
                times = _times(cluster, size_bytes, rounds)
            for operation in OPERATIONS:
                name = "send" if operation == "message" else operation
                asked_s = link_time(name, size_bytes, num_ranks=num_ranks, links=Links(link))
                taken_s = median(times[operation])
                kind = "latency" if link.latency_s else "bandwidth"
                error = asked_s / taken_s - 1 if kind == "bandwidth" else taken_s / asked_s - 1
                rows.append((kind, error))
                what = time_text(link.latency_s) if link.latency_s else f"{link.bandwidth_bytes_per_s / 1e6:g} MB/s"
                print(
                    f"{operation:12}{num_ranks:>6}{what:>20}{time_text(asked_s):>14}{time_text(taken_s):>14}"
                    f"{error:>+8.1%}",
                    flush=True,
                )
    return rows


def _cases() -> list[tuple[Link, int]]:
    """Links and the size of the buffer that each is measured with."""
    wide = [(Link(0.0, b), int(b * LINK_TIME_S) // 16 * 16) for b in BANDWIDTHS_BYTES_PER_S]
    return wide + [(Link(latency_s), 16) for latency_s in LATENCIES_S]


def _times(cluster: Cluster, size_bytes: int, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {operation: [] for operation in OPERATIONS}
    for _ in range(rounds):
        by_rank = list(cluster.call(run_operations, (size_bytes,), show=False))
        for operation in OPERATIONS:
            times[operation] += span_times([spans[operation] for spans in by_rank])
    return times


def run_operations(me: Rank, size_bytes: int) -> dict[str, Spans]:
    """Each operation several times on this rank."""
    import torch

    buffer = torch.ones(size_bytes // 4)
    return {name: spans_of(do) for name, do in _operations(me, buffer).items()}


def _operations(me: Rank, buffer: torch.Tensor) -> dict[str, Callable[[], Any]]:
    import torch.distributed as dist

    def message() -> None:
        if me.rank == 0:
            dist.send(buffer, 1)
        elif me.rank == 1:
            dist.recv(buffer, 0)

    return {
        "message": message,
        "all_reduce": lambda: dist.all_reduce(buffer),
        "broadcast": lambda: dist.broadcast(buffer, src=0),
    }
