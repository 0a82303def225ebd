"""A pack under torchrun on two nodes, network namespaces with a cable between them: its losses are one device's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cable import INTERFACE
from test_mine_pack import HANG_LIMIT_S, build, losses_of, said
from two_nodes import ADDRESS, TwoNodes

from course_lib.mine.terminal.pieces import WAYS

PORT = 29513

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="makes network namespaces, so it needs root"),
    pytest.mark.skipif(not shutil.which("ip") or not shutil.which("sshd"), reason="needs iproute2 and openssh-server"),
]


def losses_on_two_nodes(nodes: TwoNodes, folder: Path, way: str) -> list[float]:
    """Two ranks on each node, agents started as on a cluster: one on each, the first node's address for both."""
    env = f"GLOO_SOCKET_IFNAME={INTERFACE} OMP_NUM_THREADS=1 PYTHONPATH="
    torchrun = f"{sys.executable} -m torch.distributed.run --nnodes 2 --nproc-per-node 2"
    meet = f"--master-addr {ADDRESS[0]} --master-port {PORT}"
    train = f"train.py --way {way} --steps 4 --double --json {way}.json"
    agents = [
        nodes.popen(
            node,
            *("bash", "-c", f"cd {folder} && exec env {env} {torchrun} {meet} --node-rank {node} {train}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for node in (0, 1)
    ]
    told = [agent.communicate(timeout=HANG_LIMIT_S)[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], "\n".join(told)
    found = json.loads((folder / f"{way}.json").read_text())
    assert found["ranks"] == 4
    return found["losses"]


def test_a_pack_trains_on_two_nodes_as_on_one_device(anna, capsys, tmp_path):
    for name in WAYS.values():
        build(anna, name)
    pack = tmp_path / "pack"
    assert said(capsys, "--pack", str(pack))[0] == 0
    alone = losses_of(pack, "one")
    with TwoNodes([tmp_path]) as nodes:
        for way in WAYS:
            assert losses_on_two_nodes(nodes, pack, way) == pytest.approx(alone, rel=1e-10), way
