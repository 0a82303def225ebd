"""What a training script does before it trains: join the other processes, take a device, listen to signals."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from tqdm import tqdm

from course_lib.cluster import Rank

__all__ = ["StopSignal", "largest_of_all", "leave_signals_to_the_rank", "say", "set_up"]


def set_up(device_type: str) -> Rank:
    """Take this process's own device, and join the others at the rendezvous that torchrun put in the environment."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))  # the number among the processes of this machine
    local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    num_gpus = torch.cuda.device_count()
    if device_type == "cpu" or (device_type == "auto" and num_gpus == 0):
        device, backend = torch.device("cpu"), "gloo"
    elif local_world_size <= num_gpus:
        device, backend = torch.device("cuda", local_rank), "nccl"
        torch.cuda.set_device(device)  # before anything else, or each process takes memory on GPU 0 too
    else:
        raise ValueError(
            f"GPUs on this machine: {num_gpus}, processes: {local_world_size}; each needs a GPU of its own. "
            "Start no more than there are GPUs (--nproc-per-node), or train on the CPU with --device cpu."
        )
    options: dict[str, Any] = {"device_id": device} if device.type == "cuda" else {}
    if not dist.is_torchelastic_launched():  # one process, a group of one; its store opens no port
        options |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    # Two ways at once on a GPU: gradients go from GPU to GPU, small numbers on the CPU by gloo.
    dist.init_process_group("cpu:gloo,cuda:nccl" if backend == "nccl" else "gloo", **options)
    if dist.get_rank() == 0:
        _advise_on_restarts()
    return Rank(dist.get_rank(), dist.get_world_size(), device, backend, local_rank)


def _advise_on_restarts() -> None:
    """Say so if torchrun may restart ranks that would then look for each other where the dead ones were.

    torchrun shares one store among all attempts, and a restarted rank may read there the old address of a peer
    before the peer has written its new one (seen with torch 2.13; pytorch issue 135712).
    """
    may_restart = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0
    if may_restart and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        print(
            "Restarts may fail: start torchrun with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment, "
            "and with --standalone or --rdzv-backend c10d.",
            flush=True,
        )


def largest_of_all(number: int) -> int:
    """The largest of a number that every rank has; on the CPU, by gloo, so that no GPU is waited for."""
    largest = torch.tensor(number)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return int(largest)


class StopSignal:
    """Notes SIGTERM and SIGINT (Ctrl-C) down, so that the step in hand can be finished."""

    def __init__(self) -> None:
        self.number = 0  # none so far
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number


def leave_signals_to_the_rank(worker: int) -> None:
    """For a loader's workers: torchrun and Ctrl-C signal a rank's whole process group, so leave that group.

    A rank whose workers died could not finish its step. It ends them itself, and they notice if it dies.
    """
    if sys.platform != "win32":  # which has no such groups
        os.setpgid(0, 0)


def say(me: Rank, text: str) -> None:
    """Print a line, on one rank only, and above the progress bar."""
    if me.rank == 0:
        tqdm.write(text)
        sys.stdout.flush()
