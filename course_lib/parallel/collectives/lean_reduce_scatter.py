"""A reduce-scatter that sends (n-1)/n of the buffer on any back end, started now and waited for later.

gloo has none of its own: PyTorch runs an all-reduce there and throws away what others keep, at twice the bytes
(lesson 02 measures it). So on gloo every rank sends each of the others its part, an all-to-all, and adds up what has
come. That is one step, and needs room for what comes; NCCL's own does better, and is taken where there is NCCL.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from course_lib.parallel.collectives.dim_collectives import start_reduce_scatter
from course_lib.parallel.collectives.members import Members, in_one_piece

__all__ = ["start_lean_reduce_scatter"]


def start_lean_reduce_scatter(members: Members, parts: torch.Tensor) -> Callable[[], torch.Tensor]:
    """(n, K), a part for each rank -> (K,): this rank's part of the sum over ranks. ``parts`` must not be written
    to."""
    if dist.get_backend(members.group) != "gloo":
        return start_reduce_scatter(members, parts.flatten(), 0)
    parts = in_one_piece(parts)
    received = torch.empty_like(parts)  # (n, K): my part, from each rank
    work = dist.all_to_all_single(received, parts, group=members.group, async_op=True)

    def finish() -> torch.Tensor:
        assert work is not None  # None is for a rank outside the group
        work.wait()
        assert parts.shape == received.shape  # held until here, and so counted until here
        return received.sum(dim=0)

    return finish
