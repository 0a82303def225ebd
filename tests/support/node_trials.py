"""Faults on nodes, drawn at random: ranks and agents killed in calls and between them, interrupts, errors, hangs.

As a script, in a process of its own: ``python tests/support/node_trials.py COUNT SEED`` takes two nodes of this machine
and prints a line for each fault; the last says how many there were. After each fault the next call is right, or says
in a sentence what is missing, and then a new cluster works.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import psutil
from waiting import holds_in_time

from course_lib.cluster import Cluster, RankError, RankInterrupted
from course_lib.cluster.nodes import found
from course_lib.cluster.nodes.errors import NodeLost
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord

FAULTS = ("rank", "rank between calls", "agent", "agent between calls", "interrupt", "error", "hang")
RIGHT = 6.0 * 4**2  # what `ring` gives on four ranks
LONGEST_S = 0.4  # until something is killed in a call


def ring(me):
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(me.rank)], dtype=torch.float64)
    for _ in range(3):
        dist.all_reduce(total)
    return os.getpid(), total.item()


def long_ring(me):
    for _ in range(100_000):
        ring(me)


def fail(me):
    if me.rank == 1:
        raise ValueError("no more")
    ring(me)


def hang(me):
    if me.rank != 2:
        ring(me)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def trial(draw: random.Random, cluster: Cluster, fault: str) -> str:
    """Do it to the cluster; what came of the call, and of the one after it."""
    run = cluster.call(ring, show=False)
    target = run[draw.randrange(4)][0]
    if fault.startswith("agent"):
        target = found.nodes_here().nodes[draw.randrange(2)]._process.pid
    later_s = draw.random() * LONGEST_S
    came = "well"
    try:
        if fault == "error":
            cluster.call(fail, show=False)
        elif fault == "hang":
            cluster.call(hang, show=False)
        elif fault.endswith("between calls"):
            kill(target)
        else:
            do = (lambda: signal.raise_signal(signal.SIGINT)) if fault == "interrupt" else (lambda: kill(target))
            threading.Timer(later_s, do).start()
            cluster.call(long_ring, show=False)
    except (RankError, RankInterrupted, NodeLost) as error:
        came = in_a_line(error)
    except KeyboardInterrupt:  # it came while the nodes were looked at, before any rank was called
        came = "interrupted before the call"
    try:
        after = cluster.call(ring, show=False)
    except (NodeLost, RankError) as error:
        return f"{came} | {in_a_line(error)}"
    assert all(after[rank][1] == RIGHT for rank in range(4)), after.results
    return f"{came} | right"


def in_a_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def left() -> list[int]:
    """Agents of this process that are still there."""
    lines = {one.pid: one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline", "ppid"])
             if one.info["ppid"] == os.getpid()}  # fmt: skip
    return [pid for pid, line in lines.items() if "course_lib.cluster.nodes.agent_process" in line]


def main(count: int, seed: int) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    draw, ends = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = str(Path(folder) / "up.json")
        NodesRecord(("here-0", "here-1"), "127.0.0.1", starter="here").write(Path(folder) / "up.json")
        cluster = Cluster(4, timeout_s=120)
        for number in range(count):
            fault = draw.choice(FAULTS)
            came = trial(draw, cluster, fault)
            ends[came.rpartition("| ")[2].partition(":")[0]] += 1
            print(number, fault, "->", came, flush=True)
            if "| NodeLost" in came or "| Rank" in came:
                cluster.close()
                cluster = Cluster(4, timeout_s=120)
                assert cluster.call(ring, show=False)[0][1] == RIGHT, "a new cluster works"
                assert len(found.nodes_here().nodes) == 2, "a node that can be started again is"
        cluster.close()
        for nodes in found._met.values():
            for node in nodes.nodes:
                node.close()
        holds_in_time(lambda: not left(), 30)
        print(f"{count} faults: {dict(ends)}; left: {left()}")
        return 1 if left() else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
