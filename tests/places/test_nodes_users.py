"""Ranks on nodes, and another user of the same machine: what they listen on, keep in files, and show of themselves."""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from course_lib.cluster import Cluster, RankFailed
from course_lib.cluster.nodes import found
from course_lib.cluster.nodes.command import main
from course_lib.cluster.nodes.meeting.table import MeetingTable
from course_lib.cluster.nodes.record import VARIABLE

STRANGER = 65534
pytestmark = [
    pytest.mark.long,
    pytest.mark.limit_s(400.0),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="to act as another user needs root"),
]


def as_a_stranger(do: Callable[[], Any]) -> Any:
    """What another user gets who does this. A fork: that user may be unable to read this Python."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            os.write(writes, pickle.dumps(do()))
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads, "rb") as answer:
        told = answer.read()
    os.waitpid(pid, 0)
    return pickle.loads(told)


def refused(do: Callable[..., Any], *args: Any) -> bool:
    try:
        do(*args)
    except PermissionError:
        return True
    return False


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)


@pytest.fixture
def family(tmp_path, monkeypatch):
    """A cluster over two nodes of this machine, and all processes of its agents, fork servers and ranks."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    assert main(["up", "--local", "2"]) == 0
    with Cluster(2, timeout_s=120) as cluster:
        assert list(cluster.run(lambda me: me.node)) == [0, 1]
        agents = [psutil.Process(node._process.pid) for node in found.nodes_here().nodes]
        yield cluster, [one for agent in agents for one in (agent, *agent.children(recursive=True))]
    for nodes in found._met.values():
        for node in nodes.nodes:
            node.close()
    found._met.clear()


def test_another_user_has_no_way_to_the_ranks(family):
    cluster, processes = family
    assert len(processes) == 2 * 4, "an agent, what it tracks resources with, a fork server and a rank"
    sockets = {one.laddr for process in processes for one in process.net_connections("unix") if one.laddr}
    paths = [address for address in sockets if address.startswith("/")]
    assert len(paths) == 4, "each fork server has one, and each agent, by which its ranks find the others"
    assert sockets == set(paths), "nobody listens at an address that is in no folder"
    folders = {Path(path).parent for path in paths} | set(cluster.run(lambda me: folder_of_rank()))
    assert len(folders) == 4

    pids = [process.pid for process in processes]
    lines = [f"/proc/{pid}/fd/{number}" for pid in pids for number in os.listdir(f"/proc/{pid}/fd")]
    for what, do in (
        (paths, connect),
        (folders, os.listdir),
        (lines, lambda line: os.close(os.open(line, os.O_RDWR))),
        (pids, lambda pid: os.kill(pid, signal.SIGUSR2)),
        (pids, lambda pid: Path(f"/proc/{pid}/environ").read_bytes()),
    ):
        assert as_a_stranger(lambda what=what, do=do: [refused(do, one) for one in what]) == [True] * len(what)
    assert list(cluster.run(lambda me: me.rank)) == [0, 1]


def folder_of_rank() -> Path:
    """Where a rank has what it prints."""
    return next(Path(os.readlink(f"/proc/self/fd/{one}")).parent for one in os.listdir("/proc/self/fd")
                if "/stacks-" in os.readlink(f"/proc/self/fd/{one}"))  # fmt: skip


def test_no_port_answers_another_user(family):
    """Each rank has one, of its group, which is shut; notebook, agents and fork servers have none."""
    cluster, processes = family
    ranks = set(cluster.run(lambda me: os.getpid()))
    assert len(ranks) == 2
    ends = []
    for process in processes:
        ports = [one.laddr for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
        assert len(ports) == (process.pid in ranks), process
        ends += [tuple(port) for port in ports]
    assert as_a_stranger(lambda: [is_answered(end) for end in ends]) == [False, False]
    assert list(cluster.run(sum_of_ranks)) == [1.0, 1.0]


def is_answered(end: tuple[str, int]) -> bool:
    with socket.socket() as line:  # and not create_connection, which imports what that user may be unable to read
        line.settimeout(0.5)
        try:
            line.connect(end)
        except TimeoutError:
            return False
        return True


def sum_of_ranks(me) -> float:
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(me.rank)])
    dist.all_reduce(total)
    return total.item()


def test_another_user_who_is_first_at_a_port_is_refused(family, monkeypatch):
    """As soon as a rank says where it listens, to the notebook alone: a stranger reads `/proc/net/tcp` no faster."""
    port = re.compile(rb"\x02\x00(..)\x7f\x00\x00\x01", re.DOTALL)  # as gloo writes one of 127.0.0.1
    plain, strangers = MeetingTable._set, []

    def listen_in(table, key, value):
        for number in port.findall(value):
            strangers.append(stranger_at(struct.unpack("!H", number)[0]))
        plain(table, key, value)

    monkeypatch.setattr(MeetingTable, "_set", listen_in)
    try:
        with Cluster(2, timeout_s=120) as cluster, pytest.raises(RankFailed, match=r"connected to rank \d of this"):
            cluster.run(sum_of_ranks)
    finally:
        for pid in strangers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    monkeypatch.undo()
    with Cluster(2, timeout_s=120) as cluster:
        assert list(cluster.run(sum_of_ranks)) == [1.0, 1.0], "the next one is whole"


def stranger_at(port: int) -> int:
    """A process of another user that is connected there under each number; its process ID."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            lines = [socket.socket() for _ in range(2)]
            for number, line in enumerate(lines):
                line.connect(("127.0.0.1", port))
                line.sendall(struct.pack("=q", number))
            os.write(writes, b".")
            signal.pause()
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads, "rb") as ready:
        assert ready.read(1) == b".", "the stranger is connected"
    return pid


def test_a_record_that_everybody_may_change_is_not_followed(family):
    path = Path(os.environ[VARIABLE])
    assert path.stat().st_mode & 0o022 == 0
    assert as_a_stranger(lambda: refused(lambda: path.open("a")))
    path.chmod(0o666)
    with pytest.raises(ValueError, match=r"every user may change it, and it says what is run as you: `chmod o-w"):
        Cluster(2)
