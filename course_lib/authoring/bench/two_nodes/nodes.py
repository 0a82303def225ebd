"""``course bench nodes``: what ranks on two nodes cost: to start, to call, and to all-reduce within and between nodes.

On the nodes of `course nodes up`, the first two of them; where there are none, on two that are both this machine. There
torchrun does the same job, by two agents of one node each, in turns with the course.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from course_lib.authoring.bench.launch import add_one_number, nothing, seconds
from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks
from course_lib.authoring.bench.table import Table
from course_lib.authoring.bench.two_nodes.job import begun_and_timed
from course_lib.base.clock import now_s
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.nodes.found import nodes_here
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord
from course_lib.meter.clocks.stopwatch import Comparison
from course_lib.meter.units import bytes_text
from course_lib.nodes.ports import free_port

__all__ = ["fresh_cluster", "fresh_torchrun", "main", "paired"]

SIZES_BYTES = (1024, 16 * 2**20)
_LIMIT_S = 600.0
_JOB = "course_lib.authoring.bench.two_nodes.job"
_PROGRAM = """\
import json, sys
from course_lib.authoring.bench.two_nodes.nodes import on_nodes
print(json.dumps(on_nodes(*map(int, sys.argv[1:]))), flush=True)
"""


def main(arguments: list[str]) -> int:
    parser = bench_parser("nodes", __doc__, rounds=5, of="starts, and a quarter of the all-reduces")
    parser.add_argument("--ranks", type=int, nargs="+", choices=(4, 8), default=[4, 8], help="default: 4 8")
    options = parser.parse_args(arguments)
    with two_nodes() as are_here, open_table(options, head=False) as table:
        found = nodes_here(2)
        assert found is not None  # since two_nodes has seen to it
        print(f"{found.in_words(options.ranks[0])} {_WHERE[are_here]}\n")
        table.print_head()
        for num_ranks in options.ranks:
            add_starts(table, num_ranks, options.rounds, SIZES_BYTES, with_torchrun=are_here)
            add_pairs(table, num_ranks, options.rounds, SIZES_BYTES)
    return 0


_WHERE = {
    True: "Both nodes are this machine, and torchrun's are, too.",
    False: "These nodes are recorded; torchrun, which would be on this machine alone, is left out.",
}


@contextlib.contextmanager
def two_nodes() -> Iterator[bool]:
    """Within it there are nodes: those that are recorded, else two of this machine. Whether all are this machine."""
    record = NodesRecord.current()
    if record is not None:
        yield record.starter == "here"
        return
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        os.environ[VARIABLE] = str(Path(folder) / "nodes.json")
        NodesRecord(("here-0", "here-1"), "127.0.0.1", starter="here").write(Path(os.environ[VARIABLE]))
        try:
            yield True
        finally:
            for node in getattr(nodes_here(), "nodes", ()):
                node.close()
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before


def add_starts(table: Table, num_ranks: int, rounds: int, sizes_bytes: Sequence[int], *, with_torchrun: bool) -> None:
    """Fresh Pythons of the course and of torchrun in turns: until ranks have met, and their all-reduces over all."""
    ways = {"the course": fresh_cluster} | ({"torchrun": fresh_torchrun} if with_torchrun else {})
    starts_s: dict[str, list[float]] = {name: [] for name in ways}
    calls_s: dict[tuple[str, int], list[float]] = {(name, size): [] for size in sizes_bytes for name in ways}
    for turn in range(rounds):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            began_s = now_s()
            found = ways[name](num_ranks, 4 * rounds, sizes_bytes)
            starts_s[name].append(found["begun_s"] - began_s)
            for size in sizes_bytes:
                calls_s[name, size].append(median(found["times_s"][str(size)]))
    _add_all(table, f"fresh start, {num_ranks} ranks", starts_s, "s")
    for size in sizes_bytes:
        times_ms = {name: [1e3 * time_s for time_s in calls_s[name, size]] for name in ways}
        _add_all(table, f"all-reduce over all, {bytes_text(size)}, {num_ranks} ranks", times_ms, "ms")


def _add_all(table: Table, what: str, samples: dict[str, list[float]], unit: str) -> None:
    """A line for each way, and for two of them the ratio of their paired times."""
    for name, values in samples.items():
        table.add(f"{what}: {name}", values, unit)
    if len(samples) == 2:
        ours, theirs = samples.values()
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        table.add(f"{what}: course / torchrun", ratios, "x")


def add_pairs(table: Table, num_ranks: int, rounds: int, sizes_bytes: Sequence[int]) -> None:
    """In one notebook whose nodes are met: start, calls; within a node against between; hierarchical against flat."""
    with Cluster(num_ranks, nodes=2, timeout_s=_LIMIT_S) as cluster:
        cluster.call(nothing, show=False)  # the nodes' own servers of ranks begin with the first
        restarts = []
        for _ in range(rounds):
            cluster.renew()
            restarts.append(seconds(partial(cluster.call, add_one_number, show=False)))
        table.add(f"start where nodes are met, {num_ranks} ranks", restarts, "s")
        for what, function in (("warm call", nothing), ("warm call with an all-reduce", add_one_number)):
            calls = [1e3 * seconds(partial(cluster.call, function, show=False)) for _ in range(8 * rounds)]
            table.add(f"{what}, {num_ranks} ranks", calls, "ms")
        for size_bytes in sizes_bytes:
            where = f"{bytes_text(size_bytes)}, {num_ranks} ranks"
            for kind, ratio in (("reach", "between / within"), ("way", "hierarchical / flat")):
                both = cluster.call(paired, (kind, size_bytes, 4 * rounds), show=False)[0]
                table.add_pair(f"all-reduce, {where}", both, ratio=ratio)


def paired(me: Rank, kind: str, size_bytes: int, rounds: int) -> Comparison:
    """On each rank, in turns: for "reach" an all-reduce within each node, and one of a rank of each node, all at once.

    For "way" an all-reduce of all ranks by one ring and by the course's hierarchical one. Both times are of PyTorch's
    back end on memory of ``size_bytes`` that is in use.
    """
    import torch
    import torch.distributed as dist

    from course_lib.parallel.collectives import hierarchical_all_reduce

    each = me.world_size // 2
    buffer = torch.zeros(size_bytes // 4, device=me.device)
    turns = partial(compare_on_ranks, rounds=rounds, device=me.device)
    if kind == "way":
        return turns(
            lambda: dist.all_reduce(buffer),
            lambda: hierarchical_all_reduce(me, buffer, each, out=buffer),
            names=("flat", "hierarchical"),
        )
    inside = [dist.new_group(list(range(first, first + each))) for first in (0, each)]
    between = [dist.new_group([one, one + each]) for one in range(each)]
    both = turns(
        lambda: dist.all_reduce(buffer, group=inside[me.rank // each]),
        lambda: dist.all_reduce(buffer, group=between[me.rank % each]),
        names=("within a node", "between nodes"),
    )
    for group in (*inside, *between):
        dist.destroy_process_group(group)
    return both


def fresh_cluster(num_ranks: int, rounds: int, sizes_bytes: Sequence[int]) -> dict[str, Any]:
    """A Python that begins now, meets the nodes, and has ``num_ranks`` there do the job; what rank 0 found."""
    words = [sys.executable, "-c", _PROGRAM, *map(str, (num_ranks, rounds, *sizes_bytes))]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=_LIMIT_S)
    return json.loads(done.stdout.splitlines()[-1])


def on_nodes(num_ranks: int, rounds: int, *sizes_bytes: int) -> dict[str, Any]:
    """The job on the first two nodes of this Python."""
    with Cluster(num_ranks, nodes=2, timeout_s=_LIMIT_S) as cluster:
        return cluster.call(lambda me: begun_and_timed(rounds, sizes_bytes), show=False)[0]


def fresh_torchrun(num_ranks: int, rounds: int, sizes_bytes: Sequence[int]) -> dict[str, Any]:
    """Two agents of torchrun that begin now, a node each, both on this machine; what rank 0 found.

    Raises ``RuntimeError`` with what the agents have said, where rank 0 has found nothing.
    """
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", str(num_ranks // 2)]
    words += ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    job = ["-m", _JOB, *map(str, (rounds, *sizes_bytes))]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": env}
    agents = [subprocess.Popen([*words, "--node-rank", str(node), *job], **pipes) for node in range(2)]
    try:
        said = [agent.communicate(timeout=_LIMIT_S) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    found = [line for out, _ in said for line in out.splitlines() if line.startswith("{")]
    if not found:
        raise RuntimeError("torchrun did not do the job:\n" + "\n".join(errors[-2000:] for _, errors in said))
    return json.loads(found[0])
