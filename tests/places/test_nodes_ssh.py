"""`course nodes` by a real sshd on loopback: two hosts by name, from `up` to what is left when the line is cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from waiting import holds_in_time, wait_until

from course_lib.cluster import Cluster, RankFailed
from course_lib.cluster.nodes import found
from course_lib.cluster.nodes.command import main
from course_lib.cluster.nodes.record import VARIABLE

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
pytestmark = [
    pytest.mark.long,
    pytest.mark.limit_s(600.0),
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="apt install openssh-server"),
]

SETTINGS = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile {folder}/pid
StrictModes no
UsePAM no
"""


def new_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


@pytest.fixture
def sshd(tmp_path, monkeypatch):
    """A server of this test, and the options by which ssh reaches it; `a` and `b` are both this machine."""
    new_key(tmp_path / "key")
    new_key(tmp_path / "host_key")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "sshd_config").write_text(SETTINGS.format(port=port, folder=tmp_path))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(tmp_path / "sshd_config")], stderr=subprocess.DEVNULL)
    wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "sshd listens")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    words = [f"-p{port}", f"-i{tmp_path}/key", "-oHostName=127.0.0.1", "-oStrictHostKeyChecking=no"]
    words += [f"-oUserKnownHostsFile={tmp_path}/known", "-oLogLevel=ERROR", "-F/dev/null"]
    yield SimpleNamespace(options=[f"--ssh-option={word}" for word in words], process=server)
    for nodes in found._met.values():
        for node in nodes.nodes:
            node.close()
    found._met.clear()
    server.terminate()
    server.wait()


def agents(server: subprocess.Popen[bytes]) -> list[int]:
    """Those that this server has started, and not of somebody else's on this machine."""
    found_here = []
    for process in psutil.Process(server.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if words[-1:] == ["course_lib.cluster.nodes.agent_process"] and "python" in Path(words[0]).name:
                found_here.append(process.pid)
    return found_here


def ring(me):
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(me.rank)])
    dist.all_reduce(total)
    return me.node, total.item()


def test_two_hosts_from_up_to_down(sshd, capsys):
    up = ["up", "--hosts", "a,b", "--address", "127.0.0.1", *sshd.options]
    assert main(up) == 0, capsys.readouterr().err
    assert main(["status"]) == 0
    told = capsys.readouterr().out
    assert "  node 0  " in told
    assert "  node 1  " in told
    with Cluster(4, timeout_s=120) as cluster:
        run = cluster.run(ring)
        assert [run[rank] for rank in range(4)] == [(0, 6.0), (0, 6.0), (1, 6.0), (1, 6.0)]
        assert cluster.call(lambda me, value: len(value), (bytes(5_000_000),))[3] == 5_000_000

        def die(me):
            if me.rank == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            ring(me)

        with pytest.raises(RankFailed, match=r"rank 3 of 4 on node 1 .* was killed by SIGKILL"):
            cluster.run(die)
        assert cluster.run(ring)[3] == (1, 6.0)
    assert main(["down"]) == 0


def test_an_ssh_that_is_killed_takes_its_ranks_along(sshd, capsys):
    assert main(["up", "--hosts", "a,b", "--address", "127.0.0.1", *sshd.options]) == 0, capsys.readouterr().err
    with Cluster(2, timeout_s=120) as cluster:
        cluster.run(ring)
        assert len(agents(sshd.process)) == 2
        found.nodes_here().nodes[1]._process.kill()
        assert holds_in_time(lambda: len(agents(sshd.process)) == 1), "the agent hears that its line has closed"


def test_a_host_whose_key_is_not_ours(sshd, tmp_path, capsys):
    (tmp_path / "key.pub").write_text("")
    assert main(["up", "--hosts", "a", "--address", "127.0.0.1", *sshd.options]) == 1
    assert "node 0 (a)" in (err := capsys.readouterr().err)
    assert "Permission denied" in err
    assert not (tmp_path / "up.json").exists()
