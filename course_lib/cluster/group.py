"""Joining and leaving the process group, on the rank: the launcher's business, so that no cell needs it.

The ranks of one machine find each other through a private file (``FileStore``). A TCP store opens a port that
others could reach, and stalls for seconds where the system's name lookup drops queries.
"""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from course_lib.cluster.backends import Seat, shared_nccl_env
from course_lib.cluster.rank import Rank

__all__ = ["Context", "Place", "apply", "join", "leave"]

_COLLECTIVE_TIMEOUT = timedelta(hours=24)  # the supervisor's own deadline comes first, and knows more


@dataclass(frozen=True)
class Context:
    """What a rank shares with the process that calls it: where it stands, what it can import, its settings."""

    cwd: str
    sys_path: tuple[str, ...]
    env: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Place:
    """Everything a new rank is told once."""

    rank: int
    world_size: int
    seat: Seat
    folder: Path  # private to the cluster; removed with it
    num_threads: int
    debug: bool
    process_group: bool
    env: dict[str, str] = field(default_factory=dict)


def apply(context: Context, place: Place) -> None:
    """Take over the caller's folder, import path and environment, and the settings of this rank on top."""
    import sys

    os.environ.clear()
    os.environ.update(context.env)
    os.environ.update(_env_of(place))
    sys.path[:] = context.sys_path
    os.chdir(context.cwd)


def join(place: Place, *, generation: int) -> Rank:
    """Meet the other ranks in process group number ``generation`` of this cluster, and say who we are."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(place.num_threads)
    if place.debug:
        dist.set_debug_level_from_env()
    device = torch.device(place.seat.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if place.seat.backend == "nccl-shared" else place.seat.backend
    if place.seat.backend == "nccl-shared":
        os.environ.update(shared_nccl_env(place.rank, torch.cuda.nccl.version()))
    if place.process_group:
        dist.init_process_group(
            backend,
            store=dist.FileStore(str(place.folder / f"store-{generation}"), place.world_size),
            rank=place.rank,
            world_size=place.world_size,
            timeout=_COLLECTIVE_TIMEOUT,
            device_id=device if place.seat.backend == "nccl" else None,
        )
    return Rank(place.rank, place.world_size, device, backend, local_rank=place.rank)


def leave() -> None:
    """Leave every process group. Peers that wait for us hear "connection closed" at once.

    Call it when no frame of user code is left: a live DDP object at this point deadlocks now and then
    (pytorch #56297 and its kin), so what the call left behind is collected first.
    """
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        gc.collect()
        dist.destroy_process_group()


def _env_of(place: Place) -> dict[str, str]:
    return {
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.rank),
        "WORLD_SIZE": str(place.world_size),
        "LOCAL_WORLD_SIZE": str(place.world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",  # replaced where the caller hosts a store for init_process_group in the cell
        "GLOO_SOCKET_IFNAME": _loopback(),
        "NCCL_SOCKET_IFNAME": _loopback(),
        "TORCH_FR_BUFFER_SIZE": "256",  # the flight recorder: which collective is each rank in
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL" if place.debug else "OFF",
        "OMP_NUM_THREADS": str(place.num_threads),
        **place.env,
    }


def _loopback() -> str:
    import sys

    return "lo0" if sys.platform == "darwin" else "lo"
