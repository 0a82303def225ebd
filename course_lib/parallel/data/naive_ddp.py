"""Data parallelism, the whole idea: weights are sent once, and after every backward the mean of each gradient.

One message a gradient, after the backward pass: simple, right, and slow. ``buckets.py`` and
``distributed_data_parallel.py`` send the same numbers in fewer messages, and sooner.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members, in_one_piece
from course_lib.parallel.data.ddp_errors import refuse_parts

__all__ = ["all_reduce_gradients", "broadcast_parameters"]


def broadcast_parameters(
    me: Rank, module: nn.Module, src: int | None = None, group: dist.ProcessGroup | None = None
) -> None:
    """Give every rank of ``group`` the parameters and buffers of rank ``src``, by default its first.

    What lies elsewhere than on ``me.device`` goes there for its message, one tensor at a time, and comes back: NCCL
    sends nothing from the CPU.
    """
    members = Members.of(me, group)
    refuse_parts(module, members)
    ranks = members.ranks
    src = ranks[0] if src is None else src
    if src not in ranks:
        nearest = min(ranks, key=lambda rank: abs(rank - src))
        there = f"0 to {me.world_size - 1}" if group is None else ", ".join(map(str, ranks))
        raise ValueError(f"src={src} is none of the ranks {there}; the nearest is {nearest}")
    for tensor in [*module.parameters(), *module.buffers()]:
        # The tensor itself, where it lies there in one piece. Of another, gloo sends what lies between its numbers too.
        message = in_one_piece(tensor.to(me.device))
        dist.broadcast(message, src, group=group)
        if message.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(message)


def all_reduce_gradients(me: Rank, module: nn.Module) -> None:
    """After backward: replace every gradient by its mean over ranks, with one all-reduce a gradient.

    A gradient that is None on this rank counts as zero: if this rank left its all-reduce out, the others would wait
    for it. Each rank sends 2 (n - 1)/n of the gradients' bytes, in 2 (n - 1) messages a gradient.
    """
    refuse_parts(module, Members.of(me, None))
    for parameter in module.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradient = parameter.grad
            message = gradient if gradient.is_sparse else in_one_piece(gradient)  # itself, where it is so
            dist.all_reduce(message)  # the sum over ranks
            gradient.copy_(message / me.world_size)  # the mean
