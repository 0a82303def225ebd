"""The command line of an agent, which is torchrun's own, and the environment that it and its ranks see."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from course_lib.nodes.supervisor.capabilities import Capabilities, environment_of_ours
from course_lib.nodes.supervisor.counters import INTERFACE

__all__ = ["AgentCommand"]


@dataclass(frozen=True)
class AgentCommand:
    """One job, as its agents are told of it. ``program``: the file and its words; nothing for a function."""

    capabilities: Capabilities
    num_nodes: int
    min_nodes: int
    ranks_per_node: int
    max_restarts: int
    port: int
    name: str
    folder: Path  # of this job
    program: tuple[str, ...]
    env: Mapping[str, str]
    rendezvous_s: float
    host: int = 0  # the node that hosts the store of the rendezvous; -1: a process between the nodes

    def options(self, node: int) -> list[str]:
        """torchrun's options for the agent of a node."""
        nodes = str(self.num_nodes) if self.min_nodes == self.num_nodes else f"{self.min_nodes}:{self.num_nodes}"
        hosts = "true" if node == self.host else "false"
        wait_s = max(1, round(self.rendezvous_s))
        conf = f"is_host={hosts},join_timeout={wait_s},last_call_timeout=1,read_timeout={wait_s}"
        conf += ",keep_alive_interval=1,keep_alive_max_attempt=3"
        return [
            f"--nnodes={nodes}",
            f"--nproc-per-node={self.ranks_per_node}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={self.capabilities.address(self.host)}:{self.port}",
            f"--rdzv-id={self.name}",
            f"--rdzv-conf={conf}",
            f"--local-addr={self.capabilities.address(node)}",
            f"--max-restarts={self.max_restarts}",
            "--monitor-interval=0.1",
            "--shutdown-timeout=3",
            f"--log-dir={self.node_folder(node)}",
        ]

    def argv(self, node: int) -> list[str]:
        """The whole command: torchrun, by this Python. Between it and the program stands ``launch.py``.

        For node -1, the place between the nodes: the store of the rendezvous.
        """
        if node == -1:
            address = (self.capabilities.address(-1), str(self.port))
            return [sys.executable, "-m", "course_lib.nodes.rendezvous_server", *address]
        ours = ["-m", "course_lib.nodes.launch", str(self.folder)]
        return [sys.executable, "-m", "torch.distributed.run", *self.options(node), *ours, *self.program]

    def in_words(self, node: int) -> str:
        """The command as one would type it on a node of a real cluster."""
        shown = [option for option in self.options(node) if not option.startswith("--log-dir")]
        return shlex.join(["torchrun", *shown, *self.program])

    @property
    def working_folder(self) -> str:
        """Where the program finds itself: where the caller is."""
        return os.getcwd()

    def node_folder(self, node: int) -> Path:
        """Where the agent of a node keeps its own text (``agent.log``), and the errors of its ranks."""
        return self.folder / f"node{node}"

    def environment(self, node: int) -> dict[str, str]:
        """What the agent of a node, and its ranks, see."""
        loopback = "lo" if sys.platform == "linux" else "lo0"
        inherited = {
            name: value
            for name, value in environment_of_ours().items()
            if not name.startswith(("TORCHELASTIC_", "LOCAL_", "GROUP_", "ROLE_", "MASTER_"))
            and name not in ("RANK", "WORLD_SIZE")
        }
        ours = {
            "GLOO_SOCKET_IFNAME": INTERFACE if self.capabilities.has_namespaces else loopback,
            "OMP_NUM_THREADS": "1",
            "RES_OPTIONS": "timeout:1 attempts:1",  # a name server that does not answer must not cost five seconds
            # Else restarted ranks look for the dead ones in a store that they share with them (pytorch issue 135712).
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "CUDA_VISIBLE_DEVICES": "",  # ranks of two nodes would take the same GPUs, each for its own
            "COURSE_NODE": str(node),
            "COURSE_LINK": INTERFACE if self.capabilities.has_namespaces else "",
        }
        return {"TORCH_CPP_LOG_LEVEL": "ERROR", **inherited, **ours, **self.env}
