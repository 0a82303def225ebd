"""Random numbers that are the same on all ranks, and random numbers that are each rank's own.

Outside a split region every rank holds the same activations, so a dropout mask must be the same everywhere: seed all
ranks alike, and the default generator sees to it. Inside, and on a rank's own positions, equal masks would drop the
same units of every rank's part: each rank needs its own.

There is no second generator to keep, to checkpoint or to forget. For the length of a block the default generator is
seeded with a number that the block draws from it, plus the rank's place; afterwards it is put back to where it stood
after that draw, which is the same on all ranks. So one ``torch.manual_seed`` governs everything, and activation
checkpointing, which saves and restores the default generator, repeats the same masks.

Needed: the ranks of the group draw from equally seeded generators, in the same order. Megatron-LM keeps several
generators instead, in an RNG tracker, and forks to one of them (``CudaRNGStatesTracker``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.parallel.tensor.region import Region

__all__ = ["OwnDropout", "own_random_numbers"]


@contextmanager
def own_random_numbers(region: Region) -> Iterator[None]:
    """In this block, random numbers differ from rank to rank; after it, they are the same everywhere as before it."""
    device = region.me.device
    common_seed = int(torch.randint(2**62, (), device="cpu").item())  # drawn on the host: equal on all ranks
    own_generators = [] if device.type == "cpu" else [device]  # beside the host's, which is always forked
    with torch.random.fork_rng(own_generators, device_type=device.type):
        torch.manual_seed(common_seed + region.members.group_rank)
        yield


class OwnDropout(nn.Module):
    """Dropout with a mask of this rank's own: for features inside a split region, or for a rank's own positions."""

    def __init__(self, region: Region, p: float) -> None:
        super().__init__()
        self.region, self.p = region, p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape -> the same."""
        if not (self.training and self.p):
            return x
        with own_random_numbers(self.region):
            return F.dropout(x, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"
