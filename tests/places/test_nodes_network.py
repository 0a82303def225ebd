"""Two nodes with a network between them, and disks of their own: bytes as the kernel counts them, a cable with a rate,
and one that is cut for a while and for good, a checkpoint in a folder that they share and in one that they do not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import pytest
import two_nodes
from cable import burst_bytes
from nodes_here import RATE_MBIT, SHARE, SUPPORT, environment, folders_of_ranks, of_the_course, why_no_nodes
from two_nodes import TwoNodes
from waiting import wait_until

WHY_NOT = why_no_nodes()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "never"),
    pytest.mark.limit_s(900),
]
SHAPED_MBIT = 200.0  # far below what any machine hands from one of its processes to another

PROGRAM = """\
import sys, time
from pathlib import Path
from cable import sent_bytes
from course_lib.cluster import Cluster, RankError, folder_for_ranks
from course_lib.cluster.nodes.command import main
from course_lib.meter import metered

FOLDER = sys.argv[1]  # a rank of another machine has an argv of its own

def ring(me, size):
    import torch
    import torch.distributed as dist

    value = torch.ones(size)  # made there: the notebook's own bytes would go over the same cable
    for _ in range(4):
        dist.all_reduce(value)
    return me.node

def save(me, folder):
    import torch
    from course_lib.parallel.sharded import FullySharded, load_sharded, save_sharded

    model = FullySharded(me, torch.nn.Linear(8, 8))
    save_sharded(folder, model)
    load_sharded(folder, model)

def leave(me, folder):
    Path(folder, f"of-{me.rank}").touch()

def many_rings(me):
    import torch
    import torch.distributed as dist

    Path(FOLDER, f"rings-{me.rank}").touch()
    total = torch.tensor([1.0])
    for _ in range(100):
        time.sleep(0.1)
        dist.all_reduce(total, op=dist.ReduceOp.MAX)
    return total.item()

def wait_long(me):
    Path(FOLDER, f"begun-{me.rank}").touch()
    time.sleep(600)

if __name__ == "__main__":
    assert main(["up", "--hosts", "node0,node1", f"--ssh-option=-F{sys.argv[1]}/ssh_config"]) == 0
    with Cluster(4, timeout_s=120) as cluster:
        cluster.run(ring, 8)
        before = sent_bytes()
        run = metered(cluster, ring, 1_000_000)
        counted = sent_bytes() - before
        sent = [run.communication.matrix()[rank] for rank in (0, 1)]
        print("COUNTED", sum(row[2] + row[3] for row in sent), counted, run.communication.between_nodes_bytes)
        cluster.run(save, Path(FOLDER, "shared"))
        try:
            cluster.run(save, "/tmp/not-shared")
        except RankError as error:
            print("FOLDER", str(error).splitlines()[0], flush=True)
        with folder_for_ranks(cluster) as folder:
            cluster.run(leave, folder)
            print("FILES", folder, *sorted(path.name for path in Path(folder).iterdir()), flush=True)
        print("READY short", flush=True)
        print("WAITED", list(cluster.run(many_rings)), flush=True)
        print("READY cut", flush=True)
        try:
            cluster.run(wait_long)
        except RankError as error:
            print("TOLD", str(error).splitlines()[0], flush=True)
    try:
        with Cluster(2, timeout_s=120) as rest:
            print("REST", [rest.run(ring, 8)[rank] for rank in range(2)], flush=True)
    except Exception as error:
        print("REST", type(error).__name__, error, flush=True)
"""


@pytest.mark.limit_s(3000.0)
def test_after_faults_with_cuts_the_next_call_is_right_or_says_what_is_missing() -> None:
    """``COURSE_CUT_FAULTS=200`` draws more than a night does; each takes up to a minute on two busy cores."""
    count = os.environ.get("COURSE_CUT_FAULTS", "12")
    with TwoNodes(SHARE, rate_mbit=RATE_MBIT) as nodes:
        holders = (str(holder.pid) for holder in nodes.holders)
        words = (sys.executable, str(SUPPORT / "cut_trials.py"), count, "3", str(nodes.folder), *holders)
        trials = nodes.popen(0, *words, env=environment(nodes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = trials.communicate()[0]
    assert f"{count} faults: " in said, said
    assert said.rstrip().endswith("left: []"), said
    assert "bad" not in said.splitlines()[-1], said


def test_bytes_folders_and_cuts() -> None:
    with TwoNodes(SHARE, rate_mbit=RATE_MBIT) as nodes:
        program = nodes.folder / "program.py"
        program.write_text(PROGRAM)
        words = (sys.executable, str(program), str(nodes.folder))
        driver = nodes.popen(0, *words, env=environment(nodes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = []
        for line in driver.stdout:
            said.append(line)
            if line.startswith("READY short"):
                wait_until(lambda: len(list(nodes.folder.glob("rings-*"))) == 4, "all ranks exchange messages")
                nodes.cable.cut_for(5)
            elif line.startswith("READY cut"):
                wait_until(lambda: len(list(nodes.folder.glob("begun-*"))) == 4, "all ranks wait")
                nodes.cable.cut()
        driver.wait()
        told = {line.split()[0]: line.split()[1:] for line in said}
        of_node_0, counted, between = map(int, told["COUNTED"])
        assert between > 0, said
        assert of_node_0 <= counted <= 1.1 * of_node_0 + 100_000, "headers, and the questions that the notebook asks"
        unshared = (
            "/tmp/not-shared is not one folder for all nodes: node1 (rank 2) does not see what rank 0 wrote there."
        )
        assert unshared in " ".join(told["FOLDER"])
        folder, *files = told["FILES"]
        assert files == ["of-0", "of-1", "of-2", "of-3"]
        assert folder.startswith(str(nodes.folder)), "each node has a /tmp of its own"
        assert told["WAITED"] == ["[1.0,", "1.0,", "1.0,", "1.0]"], "five seconds without a cable are waited out"
        assert " ".join(told["TOLD"]).startswith(
            "rank 2 of 4 on node 1 (node1) is gone: the notebook hears nothing any more"
        )
        assert told["REST"] == ["[0,", "0]"], said
        wait_until(lambda: not nodes.processes(0), "nothing is left of it on the first node")
        wait_until(lambda: not of_the_course(nodes, 1), "the agent that was cut off ends, and its ranks", 180)
        assert not folders_of_ranks(nodes, 1)


MEASURE = """\
import json, sys
from cable import sent_bytes
from course_lib.cluster import Cluster
from course_lib.cluster.nodes.command import main
from course_lib.meter import link_between_nodes

if __name__ == "__main__":
    assert main(["up", "--hosts", "node0,node1", f"--ssh-option=-F{sys.argv[1]}/ssh_config"]) == 0
    with Cluster(4, timeout_s=300) as cluster:
        before = sent_bytes()
        link = link_between_nodes(cluster)
        print(link)
        print(json.dumps({"samples": link.fit.samples, "counted": sent_bytes() - before}), flush=True)
"""


def test_a_measured_link_is_no_faster_than_its_cable() -> None:
    """A rate is a limit: other work makes messages slower, and none makes them faster."""
    with TwoNodes(SHARE, rate_mbit=SHAPED_MBIT, delay_ms=2.0) as nodes:
        program = nodes.folder / "measure.py"
        program.write_text(MEASURE)
        words = (sys.executable, str(program), str(nodes.folder))
        driver = nodes.popen(0, *words, env=environment(nodes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = driver.communicate()[0]
        assert driver.returncode == 0, said
        print(said.splitlines()[-2], f"with {SHAPED_MBIT:g} Mbit/s and a delay of {nodes.delay_ms:g} ms")
        assert "between node 0 (node0) and node 1 (node1)" in said
        told = json.loads(said.splitlines()[-1])
        large = {size: time_s for size, time_s in told["samples"] if size >= 8 * burst_bytes(SHAPED_MBIT)}
        rates = {size: 8e-6 * size / time_s for size, time_s in large.items()}
        assert rates
        assert max(rates.values()) <= 1.3 * SHAPED_MBIT, (rates, "of what passes at once there is an eighth at most")
        assert min(time_s for _, time_s in told["samples"]) >= 1e-3 * nodes.delay_ms, "where the kernel has a delay"
        assert told["counted"] >= sum(size for size, _ in told["samples"]), "these messages went by the cable"


@pytest.mark.parametrize("fails_at", ["link", "ssh-keygen"])
def test_nodes_that_cannot_be_made_leave_nothing(monkeypatch, tmp_path, fails_at) -> None:
    started, plain, run = [], subprocess.Popen, two_nodes._run

    def noted(*words, **options):
        started.append(plain(*words, **options))
        return started[-1]

    def refused(*command: str) -> None:
        if fails_at in command:
            raise subprocess.CalledProcessError(1, command)
        run(*command)

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(two_nodes, "_run", refused)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(subprocess.CalledProcessError):
        TwoNodes()
    assert len(started) >= 2
    assert all(process.poll() is not None for process in started)
    assert not list(tmp_path.iterdir())


def test_a_holder_that_has_no_network_of_its_own_has_no_processes() -> None:
    """Else all processes of this machine would be ended with it."""
    with subprocess.Popen(["sleep", "100"]) as holder:
        half_made = TwoNodes.__new__(TwoNodes)
        half_made.holders, half_made.sshds = [holder], []
        assert half_made.processes(0) == []
        holder.kill()
