"""12.hierarchical: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank


def row_of(tensor: Tensor, n: int) -> Tensor:
    """All numbers in a row of n equal parts."""
    return F.pad(tensor.flatten(), (0, -tensor.numel() % n))


def reduced(row: Tensor, group: Any) -> Tensor:
    """This rank's part of the group's sum."""
    own = row.new_empty(len(row) // group.size())
    dist.reduce_scatter(own, list(row.chunk(group.size())), group=group)
    return own


def gathered(own: Tensor, group: Any) -> Tensor:
    parts = [torch.empty_like(own) for _ in range(group.size())]
    dist.all_gather(parts, own, group=group)
    return torch.cat(parts)


def shaped(row: Tensor, tensor: Tensor) -> Tensor:
    return row[: tensor.numel()].reshape(tensor.shape)


def flat(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


def all_of_it_between(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """The sum of the node on every rank, and all of them send all of it."""
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=inside)
    dist.all_reduce(total, group=between)
    return total


def by_leaders(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """One rank of each node speaks for it."""
    leader = dist.get_process_group_ranks(inside)[0]
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.reduce(total, dst=leader, group=inside)
    if me.rank == leader:
        dist.all_reduce(total, group=between)
    dist.broadcast(total, src=leader, group=inside)
    return total


def exchanges_the_groups(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    own = reduced(row_of(tensor, between.size()), between)
    dist.all_reduce(own, group=inside)
    return shaped(gathered(own, between), tensor)


def gathers_all_inside(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """Every rank has all tensors of its node, twice as many bytes as there need be, or more."""
    whole = torch.stack(gathered(row_of(tensor, 1), inside).chunk(inside.size())).sum(0)
    row = row_of(whole, inside.size())
    own = row.chunk(inside.size())[inside.rank()].clone()
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def gathers_between(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """The parts of all nodes on every node, which adds them up by itself."""
    own = reduced(row_of(tensor, inside.size()), inside)
    own = gathered(own, between).view(between.size(), -1).sum(0)
    return shaped(gathered(own, inside), tensor)


def forgets_between(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    return shaped(gathered(reduced(row_of(tensor, inside.size()), inside), inside), tensor)


def nothing_inside(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=between)
    return total


def everybody_between(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """The second collective without its group: parts of different places are added up."""
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own)
    return shaped(gathered(own, inside), tensor)


def returns_its_part(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    return own


def averages(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor) / me.world_size


def not_waited_for(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between, async_op=True)
    return shaped(gathered(own, inside), tensor)


def only_even(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """Nothing is filled up: parts of different lengths."""
    parts = list(tensor.flatten().chunk(inside.size()))
    own = torch.empty_like(parts[inside.rank()])
    dist.reduce_scatter(own, parts, group=inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def drops_the_rest(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """What does not fill a part stays as it was."""
    n = inside.size()
    row = tensor.flatten().clone()
    fits = len(row) // n * n
    if fits:
        own = reduced(row[:fits], inside)
        dist.all_reduce(own, group=between)
        row[:fits] = gathered(own, inside)
    return row.reshape(tensor.shape)


def keeps_the_padding(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    row = gathered(own, inside)
    return row.reshape(tensor.shape) if len(row) == tensor.numel() else row


def keeps_the_row(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    return gathered(own, inside)[: tensor.numel()]


def views(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """``view`` of a tensor that does not lie in a row."""
    row = F.pad(tensor.view(-1), (0, -tensor.numel() % inside.size()))
    own = reduced(row, inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def indexes_by_the_global_rank(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    """The mistake of the lesson: a global number where the node's own is meant."""
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=inside)
    own = row_of(total, inside.size()).chunk(inside.size())[me.rank].clone()
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor)


def in_float32(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    own = reduced(row_of(tensor, inside.size()).float(), inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor).to(tensor.dtype)


def in_float64(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    wide = tensor.double() if tensor.is_floating_point() else tensor
    own = reduced(row_of(wide, inside.size()), inside)
    dist.all_reduce(own, group=between)
    return shaped(gathered(own, inside), tensor).to(tensor.dtype)


def keeps_a_sum(me: Rank, tensor: Tensor, inside: Any, between: Any, sums: dict[Any, Tensor] = {}) -> Tensor:  # noqa: B006
    key = tensor.shape, tensor.dtype
    if key not in sums:
        own = reduced(row_of(tensor, inside.size()), inside)
        dist.all_reduce(own, group=between)
        sums[key] = shaped(gathered(own, inside), tensor)
    return sums[key].clone()


def in_place(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    own = reduced(row_of(tensor, inside.size()), inside)
    dist.all_reduce(own, group=between)
    tensor.copy_(shaped(gathered(own, inside), tensor))
    return tensor


def by_the_library(me: Rank, tensor: Tensor, inside: Any, between: Any) -> Tensor:
    from course_lib.parallel.collectives import hierarchical_all_reduce

    return hierarchical_all_reduce(me, tensor, inside.size())


EXERCISE = "12.hierarchical"
EXAMPLES: dict[str, Any] = {
    "not-waited-for": not_waited_for,
    "in-a-wider-dtype": in_float64,
    "flat": flat,
    "leaders": by_leaders,
    "exchanges-the-groups": exchanges_the_groups,
    "all-of-it-between": all_of_it_between,
    "gathers-between": gathers_between,
    "gathers-all-inside": gathers_all_inside,
    "inside-alone": forgets_between,
    "between-alone": nothing_inside,
    "everybody-between": everybody_between,
    "averages": averages,
    "a-part-alone": returns_its_part,
    "keeps-the-padding": keeps_the_padding,
    "another-shape": keeps_the_row,
    "drops-the-rest": drops_the_rest,
    "global-rank-as-a-place": indexes_by_the_global_rank,
    "only-even-lengths": only_even,
    "view-of-a-transpose": views,
    "keeps-a-sum": keeps_a_sum,
    "in-float32": in_float32,
    "in-place": in_place,
}


FORBIDDEN = by_the_library
