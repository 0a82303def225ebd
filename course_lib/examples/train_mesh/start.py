# In the course: written by ./course build --programs from course_lib/authoring/programs/sources/start.py.jinja,
# so edit that one, with what it includes. In a copy of this folder there is no other: edit this file.
"""What a training program does before it trains: join the other processes, take a device, listen to signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist

from .settings import SettingsError

__all__ = ["Rank", "StopSignal", "by_rank_0", "largest_of_all", "of_all", "say", "set_up"]

T = TypeVar("T")


class Rank(NamedTuple):
    """Who this process is among the processes of the job."""

    rank: int
    world_size: int
    device: torch.device


def set_up(device_type: str) -> Rank:
    """Take this process's own device, and join the others at the rendezvous that torchrun put in the environment."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))  # the number among the processes of this machine
    local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    num_gpus = torch.cuda.device_count()
    if device_type == "cpu" or (device_type == "auto" and num_gpus == 0):
        device = torch.device("cpu")
    elif local_world_size <= num_gpus:
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)  # before anything else, or each process takes memory on GPU 0 too
    else:
        raise SettingsError(
            f"GPUs on this machine: {num_gpus}, processes: {local_world_size}; each needs a GPU of its own. "
            "Start no more than there are GPUs (--nproc-per-node), or train on the CPU with --device cpu."
        )
    options: dict[str, Any] = {"device_id": device} if device.type == "cuda" else {}
    if not dist.is_torchelastic_launched():  # one process, a group of one; its store opens no port
        options |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    # Two ways at once on a GPU: weights and gradients go from GPU to GPU by NCCL, small numbers on the CPU by gloo.
    dist.init_process_group("gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl", **options)
    if dist.get_rank() == 0:
        _advise_on_restarts()
    return Rank(dist.get_rank(), dist.get_world_size(), device)


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


def of_all(me: Rank, value: T) -> list[T]:
    """A value that every rank has, rank by rank; on all ranks."""
    values: list[Any] = [None] * me.world_size
    dist.all_gather_object(values, value)
    return values


def by_rank_0(me: Rank, action: Callable[[], T]) -> T:
    """Rank 0 acts; every rank gets what came of it, or raises an error of the same kind with the same words.

    Errors other than these come back as a ``RuntimeError``: whatever it is, the others must not wait for ever.
    """
    # The result, the words of an error, and whether a setting is to blame.
    outcome: list[Any] = [None, None, False]
    failure: Exception | None = None
    if me.rank == 0:
        try:
            outcome[0] = action()
        except Exception as error:
            failure = error
            outcome[1:] = [str(error) or type(error).__name__, isinstance(error, SettingsError)]
    dist.broadcast_object_list(outcome, src=0)
    result, words, is_setting = outcome
    if words is not None:
        raise (SettingsError if is_setting else RuntimeError)(words) from failure
    return result


class StopSignal:
    """Notes SIGTERM and SIGINT (Ctrl-C) down, so that the step in hand can be finished."""

    def __init__(self) -> None:
        self.number = 0  # none so far
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number


def say(me: Rank, text: str) -> None:
    """Print a line, on one rank only."""
    if me.rank == 0:
        print(text, flush=True)
