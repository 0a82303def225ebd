"""Ranks on nodes, and another user of the same machine: what they listen on, keep in files, and show of themselves."""

from __future__ import annotations

import os
import pickle
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from course_lib.cluster import Cluster
from course_lib.cluster.nodes import found
from course_lib.cluster.nodes.command import main
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


def test_ports_are_open_for_gloo_alone(family):
    """Each rank has one, of its group; notebook, agents and fork servers have none."""
    cluster, processes = family
    ranks = set(cluster.run(lambda me: os.getpid()))
    assert len(ranks) == 2
    for process in processes:
        ports = [one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
        assert len(ports) == (process.pid in ranks), process


def test_a_record_that_everybody_may_change_is_not_followed(family):
    path = Path(os.environ[VARIABLE])
    assert path.stat().st_mode & 0o022 == 0
    assert as_a_stranger(lambda: refused(lambda: path.open("a")))
    path.chmod(0o666)
    with pytest.raises(ValueError, match=r"every user may change it, and it says what is run as you: `chmod o-w"):
        Cluster(2)
