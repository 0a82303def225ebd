"""Right answers to 05.clip in other styles."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import torch
import torch.distributed as dist
from answers.lesson_08.right.sums import by_messages
from torch import Tensor

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank

__all__ = ["ANSWERS"]


def by_vectors(me: Rank, shards: Sequence[Tensor], max_norm: float) -> Tensor:
    """A square a shard, all in one message; ``torch.where`` in place of a clamp, ``foreach`` to scale."""
    grads = [shard.grad for shard in shards]
    squares = torch.zeros(len(grads), dtype=torch.float64, device=me.device)
    for place, grad in enumerate(grads):
        if grad is not None:
            squares[place] = torch.linalg.vector_norm(grad) ** 2
    work = dist.all_reduce(squares, async_op=True)
    assert work is not None
    work.wait()
    norm = squares.sum().sqrt()
    factor = torch.where(norm > max_norm, max_norm / norm, torch.ones_like(norm))
    own = [grad for grad in grads if grad is not None]
    if own:
        torch._foreach_mul_(own, float(factor))
    return norm


def by_gathered_norms(me: Rank, shards: Sequence[Tensor], max_norm: float) -> float:
    """Every rank's own norm on every rank, PyTorch's clip of local norms as a tool, plain numbers from there on."""
    own = torch.nn.utils.get_total_norm([shard.grad for shard in shards if shard.grad is not None])
    norms = [torch.empty((), device=me.device) for _ in range(me.world_size)]
    dist.all_gather(norms, own.float().to(me.device))
    norm = sqrt(sum(one.item() ** 2 for one in norms))
    if norm > max_norm:
        for shard in shards:
            if shard.grad is not None:
                shard.grad.div_(norm / max_norm)
    return norm


def by_objects(me: Rank, shards: Sequence[Tensor], max_norm: float) -> Tensor:
    """Numbers sent as objects, and ``torch.nn.utils.clip_grads_with_norm_`` for the rest."""
    mine = sum(float(shard.grad.double().pow(2).sum()) for shard in shards if shard.grad is not None)
    squares: list[Any] = [None] * me.world_size
    dist.all_gather_object(squares, mine)
    norm = torch.tensor(sum(squares) ** 0.5, dtype=torch.float64, device=me.device)
    torch.nn.utils.clip_grads_with_norm_(shards, max_norm, norm)
    return norm


def around_a_ring(me: Rank, shards: Sequence[Tensor], max_norm: float) -> Tensor:
    """Each rank's number goes all the way round; the norm comes with one dim, and factors are made of squares."""
    squares = torch.zeros(1, device=me.device)
    for shard in shards:
        if shard.grad is not None:
            squares += shard.grad.flatten() @ shard.grad.flatten()
    going = squares.clone()
    for _ in range(me.world_size - 1):
        coming = torch.empty_like(going)
        exchange([send(going, (me.rank + 1) % me.world_size), recv(coming, (me.rank - 1) % me.world_size)])
        squares, going = squares + coming, coming
    factor = (max_norm**2 / squares.clamp(min=max_norm**2)).sqrt()
    for shard in shards:
        shard.grad = None if shard.grad is None else shard.grad.mul_(factor)
    return squares.sqrt()


def by_a_call_a_shard(me: Rank, shards: Sequence[Tensor], max_norm: float) -> Tensor:
    """A number a shard, whether it has a gradient here or not, each summed message by message."""
    total = torch.zeros(1, device=me.device)
    for shard in shards:
        own = 0.0 if shard.grad is None else shard.grad.norm().item()
        total += by_messages(torch.full((1,), own**2, device=me.device))
    norm = total.sqrt().squeeze()
    for shard in shards:
        if shard.grad is not None:
            shard.grad[:] = shard.grad * min(1.0, max_norm / max(float(norm), 1e-12))
    return norm


ANSWERS = (by_vectors, by_gathered_norms, by_objects, around_a_ring, by_a_call_a_shard)
