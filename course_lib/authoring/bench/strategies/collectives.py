"""``course bench collectives``: the course's own collectives beside PyTorch's, in turns, within one run.

Both work on the same memory, already in use; a round's time is that of the slowest rank; the order alternates from
round to round. The promise: a ring all-reduce of 64 MiB in place, written in Python from single messages, reaches
0.8 of the bandwidth of the back end's own, so it takes at most 1.25 times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.flat_collectives import flat_collective
from course_lib.cluster.base.rank import Rank
from course_lib.meter.clocks.stopwatch import Comparison
from course_lib.meter.units import bytes_text

if TYPE_CHECKING:
    import torch

__all__ = ["main", "paired"]

_PROMISED_SHARE = 0.8  # of the bandwidth of the back end's own ring
_SIZE_BYTES = 64 * 2**20
_PAIRS = (
    "all_reduce, ring",
    "all_reduce, halving-doubling",
    "all_reduce, tree",
    "all_reduce, naive",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "reduce",
    "all_to_all",
)


def main(arguments: list[str]) -> int:
    parser = bench_parser("collectives", __doc__, rounds=15, of="pairs of measurements")
    parser.add_argument("--only-ring", action="store_true", help="measure the ring all-reduce alone")
    options = parser.parse_args(arguments)
    with open_table(options) as table:
        for num_ranks in (2, 4):
            with Cluster(num_ranks, timeout_s=600) as cluster:
                for name in _PAIRS[:1] if options.only_ring else _PAIRS:
                    add_rows(table, cluster, name, options.rounds)
    return 0


def add_rows(table: Table, cluster: Cluster, name: str, rounds: int) -> None:
    """Three lines: the time by PyTorch, the time by the course, and the ratio of the paired times."""
    both: Comparison = cluster.call(paired, (name, _SIZE_BYTES, rounds), show=False)[0]
    where = f"{name}, {bytes_text(_SIZE_BYTES)}, {cluster.world_size} ranks"
    target = 1 / _PROMISED_SHARE if name == _PAIRS[0] else None
    table.add_pair(where, both, ratio="time, course / torch", target=target)


def paired(me: Rank, name: str, size_bytes: int, rounds: int) -> Comparison:
    """On each rank: the collective ``name`` on a buffer of ``size_bytes`` by PyTorch and by the course, in turns."""
    import torch

    buffer = torch.zeros(size_bytes // 4, device=me.device)
    names = ("torch.distributed", "the course")
    return compare_on_ranks(*_both(me, name, buffer), names=names, rounds=rounds, device=me.device)


def _both(me: Rank, name: str, buffer: torch.Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    """The same collective twice: PyTorch's and ours, both without allocating their result."""
    import torch
    import torch.distributed as dist

    from course_lib.parallel import collectives

    collective, _, algorithm = name.partition(", ")
    part = torch.zeros(len(buffer) // me.world_size, device=me.device)
    other = torch.zeros_like(buffer) if collective == "all_to_all" else buffer
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "all_reduce": (
            lambda: dist.all_reduce(buffer),
            lambda: collectives.all_reduce(me, buffer, algorithm=algorithm, out=buffer),
        ),
        "reduce_scatter": (
            lambda: flat_collective("reduce_scatter")(part, buffer),
            lambda: collectives.reduce_scatter(me, buffer, out=part),
        ),
        "all_gather": (
            lambda: flat_collective("all_gather")(buffer, part),
            lambda: collectives.all_gather(me, part, out=buffer),
        ),
        "broadcast": (
            lambda: dist.broadcast(buffer, 0),
            lambda: collectives.broadcast(me, buffer, out=buffer),
        ),
        "reduce": (
            lambda: dist.reduce(buffer, 0),
            lambda: collectives.reduce(me, buffer, out=buffer),
        ),
        "all_to_all": (
            lambda: dist.all_to_all_single(other, buffer),
            lambda: collectives.all_to_all(me, buffer, out=other),
        ),
    }
    return pairs[collective]
