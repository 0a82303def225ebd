"""Ranks hand bytes to each other through the store by which the job has found together, without a collective.

A collective would be seen by whoever records, would need a device under NCCL, and would hang with the job.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

__all__ = ["StoreExchange", "job_store", "own_place"]

_POLL_S = 0.05


def own_place() -> tuple[int, int]:
    """This process's rank and the number of ranks; (0, 1) where no process group is open."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def job_store() -> Any:
    """The job's store by a connection of its own, so that nobody waits behind a rank that waits in it; None: none."""
    from torch.distributed import distributed_c10d as c10d

    if own_place()[1] == 1:
        return None
    store: Any = c10d._get_default_store()
    try:
        return store.clone()
    except (RuntimeError, NotImplementedError):  # a store of files has no connection to share
        return store


class StoreExchange:
    """Bytes by rank, under a name that all ranks of the job give alike."""

    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name = store, f"course/{name}"

    def put(self, rank: int, data: bytes) -> None:
        self._store.set(self._key(rank), data)

    def has(self, rank: int) -> bool:
        return bool(self._store.check([self._key(rank)]))

    def take(self, ranks: Iterable[int], *, within_s: float) -> dict[int, bytes]:
        """What these ranks have put, as far as it comes in time; it is gone from the store then."""
        missing, found = set(ranks), dict[int, bytes]()
        deadline = time.monotonic() + within_s
        while missing:
            for rank in sorted(missing):
                if self.has(rank):
                    found[rank] = bytes(self._store.get(self._key(rank)))
                    self._store.delete_key(self._key(rank))
            missing -= found.keys()
            if not missing or time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        return found

    def _key(self, rank: int) -> str:
        return f"{self._name}/{rank}"
