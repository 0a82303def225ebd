"""Ports of ranks on nodes: shut once a group is made, and a stranger who stands in a rank's place is refused."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
from dataclasses import replace

import psutil
import pytest
import torch
import torch.distributed as dist
from local_nodes import two_local_nodes

from course_lib.cluster import Cluster, RankFailed
from course_lib.cluster.nodes import command
from course_lib.cluster.nodes.meeting.table import MeetingTable
from course_lib.cluster.ports.own_sockets import can_shut_ports

pytestmark = [
    pytest.mark.xdist_group("nodes"),
    pytest.mark.limit_s(400.0),
    pytest.mark.skipif(not can_shut_ports(), reason="this system has no filters for sockets"),
]
SHORT_S = 0.2  # for a connection that nobody answers


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    with two_local_nodes(tmp_path_factory.mktemp("nodes")):
        yield


def ends_of(pids):
    """Where these processes listen."""
    found = [one for pid in pids for one in psutil.Process(pid).net_connections("inet")]
    return [tuple(one.laddr) for one in found if one.status == psutil.CONN_LISTEN]


def is_answered(end):
    try:
        with socket.create_connection(end, SHORT_S):
            return True
    except TimeoutError:
        return False


def work(me):
    """A second and a third group, collectives in each, messages."""
    groups = [dist.group.WORLD, dist.new_group(), dist.new_group([0, 2], use_local_synchronization=True)]
    sums = []
    for group in groups:
        if group is not None:
            total = torch.tensor([float(me.rank)])
            dist.all_reduce(total, group=group)
            sums.append(total.item())
    if me.rank == 2:
        dist.send(torch.ones(1), 0)
    elif me.rank == 0:
        assert dist.recv(torch.zeros(1), 2) == 2
    return os.getpid(), sums


def test_no_port_of_a_rank_answers_once_its_groups_are_made(two_nodes):
    with Cluster(3, timeout_s=120) as cluster:
        before = cluster.run(lambda me: os.getpid())
        assert len(ends_of(before)) == 3
        assert not any(is_answered(end) for end in ends_of(before))
        run = cluster.run(work)
        assert [run[rank][1] for rank in range(3)] == [[3.0, 3.0, 2.0], [3.0, 3.0], [3.0, 3.0, 2.0]]
        assert len(ends_of(before)) >= 3
        assert not any(is_answered(end) for end in ends_of(before))
        with pytest.raises(RankFailed):
            cluster.run(lambda me: os.kill(os.getpid(), signal.SIGKILL) if me.rank == 2 else None)
        pids = [cluster.run(work)[rank][0] for rank in range(3)]
        assert set(pids) != set(before)
        assert not any(is_answered(end) for end in ends_of(pids))


_IPV4 = re.compile(rb"\x02\x00(..)\x7f\x00\x00\x01", re.DOTALL)  # as gloo writes a port of 127.0.0.1


@pytest.fixture
def a_stranger(monkeypatch):
    """Connects to each rank's port before any other rank knows of it, and says that it is each of them."""
    plain, lines = MeetingTable._set, []

    def listen_in(table, key, value):
        for port in _IPV4.findall(value):
            for number in range(3):
                lines.append(socket.create_connection(("127.0.0.1", struct.unpack("!H", port)[0])))
                lines[-1].sendall(struct.pack("=q", number))
        plain(table, key, value)

    monkeypatch.setattr(MeetingTable, "_set", listen_in)
    yield lines
    for line in lines:
        line.close()


def test_a_stranger_in_the_place_of_a_rank_is_refused(two_nodes, a_stranger):
    with Cluster(2, timeout_s=120) as cluster, pytest.raises(RankFailed) as caught:
        cluster.run(work)
    assert re.search(r"strangers have connected to rank \d of this group while its ranks met", str(caught.value))
    assert "--address" not in str(caught.value), "they met"
    ports = {line.getsockname()[1] for line in a_stranger}
    assert {int(port) for port in re.findall(r"127\.0\.0\.1, port (\d+)", str(caught.value))} <= ports


def own_group(me):
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    return total.item()


def test_a_group_that_a_function_makes_itself_opens_no_port_of_the_notebook(two_nodes, monkeypatch):
    monkeypatch.setattr(dist, "TCPStore", None)
    with Cluster(2, process_group=False, timeout_s=120) as cluster:
        for _ in range(2):
            assert list(cluster.run(own_group)) == [2.0, 2.0]


def test_status_names_a_node_whose_system_shuts_no_ports(two_nodes, monkeypatch, capsys):
    plain = command.meet

    def meet(record):
        met = plain(record)
        met.nodes[1].facts = replace(met.nodes[1].facts, shuts_ports=False)
        return met

    monkeypatch.setattr(command, "meet", meet)
    assert command.main(["status"]) == 0
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert "ports" not in first
    assert second.endswith("; its system has no filter that could close the ports of its ranks")
