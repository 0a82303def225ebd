"""Nodes, agents and ranks that end or do not hear of each other, and what works then."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from multiprocessing import Pipe
from pathlib import Path

import pytest
from local_nodes import a_long_wait, agents, close, no_more_of_the_second, place_and_sum, two_local_nodes
from waiting import wait_until

from course_lib.cluster import Cluster, RankFailed
from course_lib.cluster.nodes import agent_process, found
from course_lib.cluster.nodes.errors import NodeLost
from course_lib.cluster.nodes.meeting.table import MeetingTable
from course_lib.cluster.nodes.node import RemoteNode
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.limit_s(400.0)]


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    """Two nodes on this machine, for the tests of this file."""
    with two_local_nodes(tmp_path_factory.mktemp("nodes")):
        yield


@pytest.fixture
def cluster(two_nodes):
    with Cluster(3, timeout_s=120) as over_two:
        yield over_two


def test_a_killed_rank_is_told_and_replaced(cluster):
    def end_the_last(me):
        import torch
        import torch.distributed as dist

        if me.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RankFailed, match=r"rank 2 of 3 on node 1 .* was killed by SIGKILL"):
        cluster.run(end_the_last)
    assert cluster.run(place_and_sum)[2][2] == 3.0


def test_a_node_that_goes_ends_the_call_and_the_next_works_on_what_is_left(monkeypatch, tmp_path):
    """On nodes of its own, for one of them is gone then."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    record = NodesRecord(("here-0", "here-1"), "127.0.0.1", ssh_options=("-v",), starter="here")  # no other test's
    record.write(tmp_path / "up.json")
    with Cluster(2, timeout_s=120) as cluster:
        cluster.run(place_and_sum)
        second = found.nodes_here().nodes[1]
        wait_long, when_begun = a_long_wait(tmp_path / "begun")
        when_begun(lambda: os.kill(second._process.pid, signal.SIGKILL))
        with pytest.raises(
            RankFailed, match=r"rank 1 of 2 on node 1 .* is gone: the notebook hears nothing any more from node 1"
        ):
            cluster.run(wait_long)
        with pytest.raises(NodeLost, match=r"node 1 .* has gone: its line has closed"):
            cluster.run(place_and_sum)
        assert cluster.is_closed, "shared_cluster makes another one"
    monkeypatch.setattr(NodesRecord, "command", no_more_of_the_second(NodesRecord.command))
    with Cluster(2, timeout_s=120) as rest:
        assert [rest.run(place_and_sum)[rank][0] for rank in range(2)] == [0, 0], "on what is left"
    said = found.nodes_here().in_words(2)
    assert re.fullmatch(r"2 ranks on 1 node: 2 on \S+\. here-1 does not answer\.", said), said
    close(record)


@pytest.mark.long
def test_no_agent_outlives_a_notebook_that_was_killed(two_nodes):
    program = (
        "import os, signal\nfrom course_lib.cluster import Cluster\n"
        "cluster = Cluster(2)\ncluster.run(lambda me: None)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    before = set(agents())
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    wait_until(lambda: set(agents()) <= before, "its agents hear that their line has closed")


def test_an_agent_ends_when_its_notebook_is_not_heard_of(monkeypatch):
    monkeypatch.setattr(agent_process, "UNHEARD_S", 0.2)
    (incoming, asks), (answers, outgoing) = Pipe(duplex=False), Pipe(duplex=False)
    server = agent_process.AgentProcess(incoming, outgoing)
    asks.send_bytes(b"." + pickle.dumps((1, "no_such_method", ())))
    server.serve()  # comes back though the line is open
    number, kind, text = pickle.loads(answers.recv_bytes()[1:])
    assert (number, kind, "no_such_method" in text) == (1, "failed", True)


@pytest.mark.long  # they try for two minutes
def test_ranks_that_cannot_meet_say_where_they_wanted_to(two_nodes, monkeypatch):
    """Each is told an address of the others at which nobody is, as behind a firewall."""
    plain = MeetingTable._set

    def set_elsewhere(table: MeetingTable, key: str, value: bytes) -> None:
        plain(table, key, value.replace(bytes((127, 0, 0, 1)), bytes((192, 0, 2, 1))))

    monkeypatch.setattr(MeetingTable, "_set", set_elsewhere)
    with Cluster(2, timeout_s=60) as cluster, pytest.raises(RankFailed, match=r"`course nodes up --address ADDRESS`"):
        cluster.run(place_and_sum)


def test_a_rank_that_died_between_two_calls_is_replaced(cluster, capsys, monkeypatch):
    pids = cluster.run(lambda me: os.getpid())
    cluster.push(kept=1)
    as_told = RemoteNode._take_in

    def not_yet(node, event):
        """News of its end are still on their way; who asks is told."""
        if event.kind != "died" or not threading.current_thread().name.startswith("node-"):
            as_told(node, event)

    monkeypatch.setattr(RemoteNode, "_take_in", not_yet)
    os.kill(pids[2], signal.SIGKILL)
    second, team = found.nodes_here().nodes[1], cluster._team._on_nodes._name
    wait_until(lambda: second.ask("look", team)[1] == {2: -signal.SIGKILL}, "its agent knows")
    assert cluster._team.is_complete, "and the notebook does not"
    capsys.readouterr()
    assert cluster.run(place_and_sum)[2][2] == 3.0
    assert capsys.readouterr().out.startswith("The ranks have ended since your last cell, and the variables of your")


@pytest.mark.long
@pytest.mark.limit_s(3000.0)
def test_after_faults_of_every_kind_the_next_call_is_right_or_says_what_is_missing():
    """``COURSE_NODE_FAULTS=300`` draws more than a night does."""
    count = int(os.environ.get("COURSE_NODE_FAULTS", "30"))
    program = Path(__file__).resolve().parents[1] / "support" / "node_trials.py"
    done = subprocess.run([sys.executable, str(program), str(count), "7"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} faults" in done.stdout
    assert "Traceback" not in done.stderr, done.stderr
