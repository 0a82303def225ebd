"""Who a rank is: the one argument that every function on the cluster receives first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["Rank"]


@dataclass(frozen=True)
class Rank:
    """One process among ``world_size``: its number, its device, and how it talks to the others.

    A function on the cluster is handed its ``Rank`` and needs nothing else to find its place::

        def hello(me: Rank) -> str:
            return f"I am rank {me.rank} of {me.world_size}, on {me.device}"
    """

    rank: int  # 0 .. world_size - 1, unique in the whole job
    world_size: int
    device: torch.device
    backend: str  # "gloo" or "nccl": who carries the messages
    local_rank: int = 0  # the number among the ranks of this machine
    node: int = 0  # the machine's number, 0 when there is one
    slow_factor: float = 1.0  # above 1 where the cluster was asked to slow this rank

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} on {self.device} ({self.backend})"
