"""A notebook in an allocation of two nodes of a real Slurm: its ranks are on both, by srun, and end with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from slurm_here import slurm_here, why_no_slurm
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
from course_lib.cluster import Cluster, RankFailed

def ring(me):
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(me.rank)])
    dist.all_reduce(total)
    return me.node, me.local_rank, os.environ["SLURMD_NODENAME"], total.item()

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
"""


def test_a_cluster_takes_the_nodes_of_its_allocation(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    program, said = tmp_path / "program.py", tmp_path / "said.txt"
    program.write_text(PROGRAM)
    environment = f"PYTHONPATH={library_folder()} COURSE_HOME={tmp_path} COURSE_SEATS=off"
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{environment} {sys.executable} {program}\n")
    with slurm_here(folder) as slurm:
        words = ("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2", f"--output={said}", str(tmp_path / "job.sh"))
        done = slurm.told("sbatch", "--parsable", *words)
        assert done.returncode == 0, done.stderr
        job = int(done.stdout.split(";")[0])
        wait_until(lambda: slurm.state(job) not in ("PENDING", "RUNNING", "COMPLETING"), "the job ends", 900)
        lines = said.read_text().splitlines()
        assert lines[-4:-2] == [
            "[(0, 0, 'n1', 6.0), (0, 1, 'n1', 6.0), (1, 0, 'n2', 6.0), (1, 1, 'n2', 6.0)]",
            next((line for line in lines if line.startswith("rank 3 of 4 on node 1 (")), "no story"),
        ], said.read_text()
        assert lines[-3].endswith("failed: ValueError: no more")
        assert lines[-2:] == ["3000000", "6.0"]
        agents = [one for one in slurm.processes() if "course_lib.cluster.nodes.agent_process" in one.cmdline()]
        assert not agents, "agents outlive their notebook"
