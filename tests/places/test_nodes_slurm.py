"""A notebook in an allocation of two nodes of a real Slurm: its ranks are on both, by srun, and end with it.

Once the nodes are on loopback, and once each has a network and a /tmp of its own, with a cable between them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodes_here import RATE_MBIT, SHARE, SUPPORT, folders_of_ranks, of_the_course, why_no_nodes
from slurm_here import SlurmHere, slurm_here, why_no_slurm
from two_nodes import ADDRESS, TwoNodes
from waiting import wait_until

from course_lib.base.paths import library_folder

WHY_NOT = why_no_slurm()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "never"),
    pytest.mark.xdist_group("slurm"),
    pytest.mark.limit_s(1200),
]

PROGRAM = """\
import os, sys
from cable import sent_bytes
from course_lib.cluster import Cluster, RankFailed
from course_lib.meter import metered

def ring(me, size=1):
    import torch
    import torch.distributed as dist

    total = torch.full((size,), float(me.rank))
    dist.all_reduce(total)
    return me.node, me.local_rank, os.environ["SLURMD_NODENAME"], total[0].item()

def fail(me):
    if me.rank == 3:
        raise ValueError("no more")
    ring(me)

if __name__ == "__main__":
    with Cluster(4, timeout_s=300) as cluster:
        print([cluster.run(ring)[rank] for rank in range(4)])
        try:
            cluster.run(fail)
        except RankFailed as error:
            print(str(error).splitlines()[0])
        print(len(cluster.call(lambda me, value: value, (bytes(3_000_000),))[3]))
        print(cluster.run(ring)[3][3])
        before = sent_bytes()
        run = metered(cluster, ring, 1_000_000)
        rows = [run.communication.matrix()[rank] for rank in (0, 1)]
        print(sum(row[2] + row[3] for row in rows), sent_bytes() - before)
"""


@pytest.fixture(params=["loopback", "cable"])
def slurm(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SlurmHere]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    if request.param == "loopback":
        with slurm_here(folder) as found:
            yield found
        return
    if why_not := why_no_nodes():
        pytest.skip(why_not)
    with TwoNodes([*SHARE, tmp_path], rate_mbit=RATE_MBIT) as nodes:
        with slurm_here(folder, two_nodes=nodes) as found:
            yield found
        for node in (0, 1):
            wait_until(lambda node=node: not nodes.processes(node), f"nothing is left of Slurm on node {node}")


def test_a_cluster_takes_the_nodes_of_its_allocation(slurm: SlurmHere, tmp_path: Path) -> None:
    program, said = tmp_path / "program.py", tmp_path / "said.txt"
    program.write_text(PROGRAM)
    environment = f"PYTHONPATH={library_folder()}:{SUPPORT} COURSE_HOME={tmp_path} COURSE_SEATS=off"
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{environment} {sys.executable} {program}\n")
    words = ("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2", f"--output={said}", str(tmp_path / "job.sh"))
    done = slurm.told("sbatch", "--parsable", *words)
    assert done.returncode == 0, done.stderr
    job = int(done.stdout.split(";")[0])
    wait_until(lambda: slurm.state(job) not in ("PENDING", "RUNNING", "COMPLETING"), "the job ends", 900)
    lines = said.read_text().splitlines()
    assert lines[-5:-3] == [
        "[(0, 0, 'n1', 6.0), (0, 1, 'n1', 6.0), (1, 0, 'n2', 6.0), (1, 1, 'n2', 6.0)]",
        next((line for line in lines if line.startswith("rank 3 of 4 on node 1 (")), "no story"),
    ], said.read_text()
    assert lines[-4].endswith("failed: ValueError: no more")
    assert lines[-3:-1] == ["3000000", "6.0"]
    agents = [one for one in slurm.processes() if "course_lib.cluster.nodes.agent_process" in one.cmdline()]
    assert not agents, "agents outlive their notebook"
    if slurm.two_nodes:
        of_node_0, counted = map(int, lines[-1].split())
        assert 0 < of_node_0 <= counted, "what ranks send to another node goes by the cable"
        assert "rank 3 of 4 on node 1 (node1)" in lines[-4]
        for node in (0, 1):
            assert not of_the_course(slurm.two_nodes, node)
            assert not folders_of_ranks(slurm.two_nodes, node), "an agent ends before srun would kill it"


FROM_OUTSIDE = """\
from course_lib.cluster import Cluster

def where(me):
    import os

    return me.node, me.local_rank, os.environ["SLURMD_NODENAME"]

if __name__ == "__main__":
    with Cluster(4, timeout_s=300) as cluster:
        print([cluster.run(where)[rank] for rank in range(4)])
"""


def test_nodes_are_asked_of_slurm_from_outside_and_given_back(slurm: SlurmHere, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FROM_OUTSIDE)
    own = {"PYTHONPATH": str(library_folder()), "COURSE_HOME": str(tmp_path), "COURSE_SEATS": "off",
           "COURSE_NODES": str(tmp_path / "up.json")}  # fmt: skip
    nodes = (sys.executable, "-m", "course_lib.cli", "nodes")
    address = ADDRESS[0] if slurm.two_nodes else "127.0.0.1"
    up = slurm.told(*nodes, "up", "--slurm", "--nodes", "2", "--address", address,
                    "--slurm-option=--cpus-per-task=2", **own)  # fmt: skip
    assert up.returncode == 0, up.stdout + up.stderr
    assert ": n1, n2" in up.stdout
    job = int(slurm.told("squeue", "--noheader", "--format=%A").stdout)
    done = slurm.told(sys.executable, str(tmp_path / "program.py"), **own)
    assert done.stdout.splitlines()[-1:] == ["[(0, 0, 'n1'), (0, 1, 'n1'), (1, 0, 'n2'), (1, 1, 'n2')]"], done
    down = slurm.told(*nodes, "down", **own)
    assert down.returncode == 0, down.stderr
    wait_until(lambda: slurm.state(job) not in ("RUNNING", "COMPLETING"), "the nodes go back")
    refused = slurm.told(*nodes, "up", "--slurm", "--slurm-option=--partition=nowhere", **own)
    assert refused.returncode == 1
    assert "Slurm gave no nodes" in refused.stderr, refused.stderr
