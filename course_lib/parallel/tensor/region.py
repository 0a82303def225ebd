"""A split region: in between its two gates every rank works on features of its own.

::

                     enter                                     leave
    x (all features) ----->  h (some heads, some hidden units) ----->  y (all features)

    without sequence parallelism      identity / all-reduce              all-reduce / identity
    with sequence parallelism         all-gather / reduce-scatter        reduce-scatter / all-gather

In the Megatron papers the entrance is called f and the exit g (g and g-bar with sequence parallelism). Outside the
region the activations are the same on all ranks, or, with sequence parallelism, each rank has its part of
the positions. An all-reduce is a reduce-scatter and an all-gather, so the second way sends the same bytes, and what
stands outside (norms, dropout, the residual stream) is computed and kept once and not n times.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.tensor.autograd_collectives import all_reduce_identity, reduce_scatter_all_gather

__all__ = ["SEQUENCE_DIM", "Region"]

SEQUENCE_DIM = -2  # of (..., T, D): positions


@dataclass(frozen=True)
class Region:
    """Who shares the region, and what stands outside it.

    ``sequence_parallel``: outside, activations are cut along their positions. ``regather``: keep the rank's part of the
    input for the backward pass and gather it anew there (the extra all-gather in backward, and 1/n of the memory), as
    Korthikanti et al. (2022) do, instead of keeping the gathered input.
    """

    me: Rank
    group: dist.ProcessGroup | None = None
    sequence_parallel: bool = False
    regather: bool = False

    def __post_init__(self) -> None:
        if self.regather and not self.sequence_parallel:
            raise ValueError(
                "regather=True needs sequence_parallel=True: without it the layer gathers nothing, so it cannot "
                "gather again. Leave regather out."
            )

    @property
    def members(self) -> Members:
        """The ranks of the region, seen by this one."""
        return Members.of(self.me, self.group)

    def leave(self, partial: torch.Tensor) -> torch.Tensor:
        """Partial sums (..., T, D) -> their sum (..., T, D), or this rank's part of it (..., T/n, D)."""
        if self.sequence_parallel:
            return reduce_scatter_all_gather(self.me, partial, dim=SEQUENCE_DIM, group=self.group)
        return all_reduce_identity(self.me, partial, group=self.group)
