"""Two nodes with a network between them: bytes as the kernel counts them, and what is told when the network is cut."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

from course_lib.base.paths import library_folder, project_root

_PROGRAMS = ("ip", "unshare", "nsenter", "ssh", "ssh-keygen", "sshd", "tc")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
MISSING = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)} here"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.limit_s(900),
]

PROGRAM = """\
import sys, time
from pathlib import Path
from course_lib.cluster import Cluster, RankError
from course_lib.cluster.nodes.command import main
from course_lib.meter import metered

FOLDER = sys.argv[1]  # a rank of another machine has an argv of its own

def sent_bytes():
    line = next(line for line in open("/proc/net/dev") if line.strip().startswith("eth0:"))
    return int(line.partition(":")[2].split()[8])

def ring(me, size):
    import torch
    import torch.distributed as dist

    value = torch.ones(size)  # made there: the notebook's own bytes would go over the same cable
    for _ in range(4):
        dist.all_reduce(value)
    return me.node

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
        print("READY", flush=True)
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


def two_nodes(share: list[Path]) -> Any:
    """Two nodes as the engines were measured on."""
    path = project_root() / "docs" / "maintaining" / "engines" / "two_nodes.py"
    spec = importlib.util.spec_from_file_location("two_nodes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TwoNodes(share)


def test_bytes_and_a_cut() -> None:
    share = [path for path in (library_folder(), Path(sys.prefix)) if str(path).startswith("/tmp/")]
    with two_nodes(share) as nodes:
        program = nodes.folder / "program.py"
        program.write_text(PROGRAM)
        nodes.folder.chmod(0o777)
        env = {**os.environ, "PYTHONPATH": str(library_folder()), "TMPDIR": "/tmp", "COURSE_HOME": str(nodes.folder)}
        env |= {"COURSE_SEATS": "off", "COURSE_NODES": str(nodes.folder / "up.json")}
        words = (sys.executable, str(program), str(nodes.folder))
        driver = nodes.popen(0, *words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = []
        for line in driver.stdout:
            said.append(line)
            if line.startswith("READY"):
                wait_until(lambda: len(list(nodes.folder.glob("begun-*"))) == 4, "all ranks wait")
                nodes.cut()
        driver.wait()
        told = {line.split()[0]: line.split()[1:] for line in said}
        of_node_0, counted, between = map(int, told["COUNTED"])
        assert between > 0, said
        assert of_node_0 <= counted <= 1.1 * of_node_0 + 100_000, "headers, and the questions that the notebook asks"
        assert " ".join(told["TOLD"]).startswith("rank 2 of 4 on node 1 (node1) is gone: nothing is heard any more")
        assert told["REST"] == ["[0,", "0]"], said
        wait_until(lambda: not nodes.processes(0), "nothing is left of it on the first node")
