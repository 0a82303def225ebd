"""Joining and leaving the process group, on the rank: the launcher's business, so that no cell needs it.

The ranks of one machine find each other through a private file (``FileStore``). A TCP store opens a port that
others could reach, and stalls for seconds where the system's name lookup drops queries. Ranks of several machines
have no file in common and ask their agents (``LineStore``).
"""

from __future__ import annotations

import gc
import importlib
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from course_lib.cluster.base.backends import RankDevice
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.ports.port_guard import guard_ports

__all__ = ["MEETING_SOCKET", "RankConfig", "join", "leave"]

MEETING_SOCKET = "meeting"  # in the folder of a team; the agent of its node listens there
_COLLECTIVE_TIMEOUT = timedelta(hours=24)  # the supervisor's own deadline comes first, and knows more


@dataclass(frozen=True)
class RankConfig:
    """Everything a new rank is told once. ``local_rank`` and ``local_size``: among the ranks of its node."""

    rank: int
    world_size: int
    rank_device: RankDevice
    folder: Path  # private to the cluster; removed with it
    num_threads: int
    debug: bool
    process_group: bool
    env: dict[str, str] = field(default_factory=dict)
    node: int = 0
    local_rank: int = -1  # -1: the same as its rank
    local_size: int = -1  # -1: all ranks are here
    clock_behind_s: float = 0.0  # this machine's, of the notebook's
    seed: int | None = None  # of all generators of random numbers; None: they stand as its fork server's do
    notebook_address: str = ""  # of its machine, as the nodes reach it; empty: all ranks are here

    def __post_init__(self) -> None:
        if self.local_rank < 0:
            object.__setattr__(self, "local_rank", self.rank)
        if self.local_size < 0:
            object.__setattr__(self, "local_size", self.world_size)


def join(config: RankConfig, *, generation: int) -> Rank:
    """Meet the other ranks in process group number ``generation`` of this cluster, and say who we are."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(config.num_threads)
    if config.debug:
        dist.set_debug_level_from_env()
    device = torch.device(config.rank_device.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if config.rank_device.backend == "nccl-shared" else config.rank_device.backend
    guard_ports(asks_who_came=bool(config.notebook_address))
    if config.notebook_address and not config.process_group:
        _meet_by_agents(config)
    if config.process_group:
        dist.init_process_group(
            backend,
            store=_store(config, str(generation)),
            rank=config.rank,
            world_size=config.world_size,
            timeout=_COLLECTIVE_TIMEOUT,
            device_id=device if config.rank_device.backend == "nccl" else None,
        )
    return Rank(config.rank, config.world_size, device, backend, local_rank=config.local_rank, node=config.node)


def _meet_by_agents(config: RankConfig) -> None:
    """Have ``init_process_group`` of a function that asks by ``env://`` or ``tcp://`` meet as the cluster's own does.

    PyTorch's store there is a port without a key. What stands for its port is the number of the call.
    """
    rendezvous = importlib.import_module("torch.distributed.rendezvous")  # a function has the same name
    rendezvous._create_c10d_store = lambda hostname, port, *_, **__: _store(config, f"own {port}")  # type: ignore[attr-defined]


def _store(config: RankConfig, name: str) -> Any:
    import torch.distributed as dist

    if not config.notebook_address:
        return dist.FileStore(str(config.folder / f"store-{name}"), config.world_size)
    from course_lib.cluster.base.line_store import line_store

    return dist.PrefixStore(name, line_store(config.folder / MEETING_SOCKET))


def leave(*, has_failed: bool = False) -> None:
    """Leave every process group. Peers that wait for us hear "connection closed" at once.

    On NCCL to leave is a collective: a rank that ``has_failed`` would wait there for peers that wait for it, and stays.
    Call it when no frame of user code is left: a live DDP object at this point deadlocks now and then
    (pytorch #56297 and its kin), so what the call left behind is collected first.
    """
    import torch
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        if has_failed and torch.cuda.is_initialized() and dist.get_backend() != "gloo":
            return
        gc.collect()
        dist.destroy_process_group()
