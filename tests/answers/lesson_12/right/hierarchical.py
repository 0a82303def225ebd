"""Right answers to 12.hierarchical in other styles than the lesson's, and mutants that nobody could tell from it."""

from __future__ import annotations

from math import ceil
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank

__all__ = ["ALL", "SAME"]


def by_one_tensor(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """The collectives that take one tensor in the place of a list."""
    n = dist.get_world_size(inside)
    row = F.pad(tensor.reshape(-1), (0, -tensor.numel() % n)).contiguous()
    own = torch.empty(len(row) // n, dtype=row.dtype, device=row.device)
    dist.reduce_scatter_tensor(own, row, group=inside)
    dist.all_reduce(own, group=between)
    whole = torch.empty_like(row)
    dist.all_gather_into_tensor(whole, own, group=inside)
    return whole[: tensor.numel()].reshape(tensor.shape)


def by_waiting(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """Begun and waited for; parts as lists of their own, the last one filled up."""
    size = ceil(tensor.numel() / inside.size())
    row = tensor.new_zeros(size * inside.size())
    row[: tensor.numel()] = tensor.flatten()
    parts = [part.clone() for part in row.view(inside.size(), size)]
    own = torch.zeros_like(parts[0])
    dist.reduce_scatter(own, parts, group=inside, async_op=True).wait()
    dist.all_reduce(own, group=between, async_op=True).wait()
    dist.all_gather(parts, own, group=inside, async_op=True).wait()
    return torch.cat(parts).narrow(0, 0, tensor.numel()).view(tensor.shape)


def by_uneven_messages(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """No padding: every rank of the node is sent its part, which may be shorter than others."""
    ranks, place = dist.get_process_group_ranks(inside), dist.get_rank(inside)
    parts = list(tensor.flatten().tensor_split(len(ranks)))
    came = [torch.empty_like(parts[place]) for _ in ranks]
    _exchange(inside, ranks, place, parts, came)
    came[place] = parts[place]
    own = torch.stack(came).sum(0)
    if own.numel():
        dist.all_reduce(own, group=between)
    whole = [own.clone() if at == place else torch.empty_like(part) for at, part in enumerate(parts)]
    _exchange(inside, ranks, place, [own] * len(ranks), whole)
    return torch.cat(whole).view(tensor.shape)


def _exchange(group: Any, ranks: list[int], place: int, given: list[Tensor], taken: list[Tensor]) -> None:
    """Part by part to every other rank of the group, and theirs from them."""
    calls = []
    for at, rank in enumerate(ranks):
        if at != place:
            calls.append(dist.P2POp(dist.isend, given[at].contiguous(), rank, group=group))
            calls.append(dist.P2POp(dist.irecv, taken[at], rank, group=group))
    for work in dist.batch_isend_irecv(calls) if calls else []:
        work.wait()


def by_a_sum_and_a_part(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """gloo's reduce-scatter is this: an all-reduce of which each rank keeps its part."""
    n, place = dist.get_world_size(inside), dist.get_group_rank(inside, me.rank)
    total = F.pad(tensor.clone(memory_format=torch.contiguous_format).view(-1), (0, -tensor.numel() % n))
    dist.all_reduce(total, group=inside)
    parts = total.view(n, -1)
    own = parts[place].clone()
    dist.all_reduce(own, group=between)
    dist.all_gather(list(parts), own, group=inside)
    return total[: tensor.numel()].view_as(tensor)


def by_halves_twice(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """The all-reduce between is a reduce-scatter and an all-gather as well."""
    n, k = inside.size(), between.size()
    row = F.pad(tensor.flatten(), (0, -tensor.numel() % (n * k)))
    own = row.new_empty(len(row) // n)
    dist.reduce_scatter_tensor(own, row, group=inside)
    parts = [torch.empty_like(own) for _ in range(k)]
    if k == 2:  # every part to the other one: as much as an all-reduce sends
        dist.all_gather(parts, own, group=between)
        own = torch.stack(parts).sum(0)
    else:
        dist.all_reduce(own, group=between)
    whole = torch.empty_like(row)
    dist.all_gather_into_tensor(whole, own, group=inside)
    return whole[: tensor.numel()].view(tensor.shape)


ALL = (by_one_tensor, by_waiting, by_uneven_messages, by_a_sum_and_a_part, by_halves_twice)
SAME: dict[str, str] = {}
