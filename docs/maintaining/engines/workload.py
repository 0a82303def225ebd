"""What ranks are asked to do, by whichever engine, and the medians of it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

RANKS_A_NODE, NODES = 4, 2
WORLD_SIZE = RANKS_A_NODE * NODES
BIG = 4_000_000  # bytes


def meet(rank: int, address: str, port: int) -> int:
    """Import torch and meet the others in a gloo group; the store is at the caller's."""
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.TCPStore(address, port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD_SIZE)
    return os.getpid()


def nothing(*_: Any) -> None:
    pass


def reduce_1k(*_: Any) -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(256))


def echo(_: Any, data: bytes) -> bytes:
    return data


def rank_here() -> int:
    import torch.distributed as dist

    return dist.get_rank()


def sleep_alone(*_: Any) -> None:
    """Busy in Python, as each rank by itself."""
    for _second in range(600):
        time.sleep(0.1)


def stuck(*_: Any) -> None:
    """All wait in a collective for rank 0, which does not come."""
    if rank_here() == 0:
        sleep_alone()
    reduce_1k()


def hosted_store(address: str) -> tuple[Any, int]:
    """The place where ranks meet, in the process of the notebook."""
    import torch.distributed as dist

    store = dist.TCPStore(address, 0, is_master=True, wait_for_workers=False)
    return store, store.port


def median_ms(call: Callable[[], Any], times: int = 50) -> str:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1e3)
    took.sort()
    return f"{statistics.median(took):.1f} ms (of {times}; {took[times // 10]:.1f} to {took[-1 - times // 10]:.1f})"


def say(what: str, value: object) -> None:
    print(f"{what}: {value}", flush=True)


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def __str__(self) -> str:
        return f"{time.perf_counter() - self.began:.2f} s"
