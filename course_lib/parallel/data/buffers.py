"""Buffers under data parallelism: BatchNorm's statistics, say, which each rank moves by its own part of the batch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.parallel.collectives.members import Members

__all__ = ["broadcast_buffers"]


@torch.no_grad()
def broadcast_buffers(members: Members, module: nn.Module) -> None:
    """Give every rank the buffers of the first, in one message for each dtype."""
    by_dtype: dict[torch.dtype, list[Tensor]] = {}
    for buffer in module.buffers():
        by_dtype.setdefault(buffer.dtype, []).append(buffer)
    flats = [torch.cat([buffer.flatten() for buffer in buffers]) for buffers in by_dtype.values()]
    works = [dist.broadcast(flat, members.ranks[0], group=members.group, async_op=True) for flat in flats]
    for buffers, flat, work in zip(by_dtype.values(), flats, works, strict=True):
        assert work is not None  # None is for a rank outside the group
        work.wait()
        if members.group_rank != 0:
            for buffer, part in zip(buffers, flat.split([b.numel() for b in buffers]), strict=True):
                # .data: an earlier forward that still waits for its backward need not fear this change
                buffer.data.copy_(part.view(buffer.shape))
