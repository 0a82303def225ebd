"""Broadcast and reduce along a binomial tree: in each round, twice as many ranks take part as in the one before.

With 8 ranks and root 0::

    round 0      0 -> 1
    round 1      0 -> 2    1 -> 3
    round 2      0 -> 4    1 -> 5    2 -> 6    3 -> 7

A reduce walks the same arrows backwards, last round first. Either takes log2(n) rounds, rounded up, and every
message is the whole tensor. Source: Thakur, Rabenseifner and Gropp, *Optimization of Collective Communication
Operations in MPICH* (2005), sections 3 and 4.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from course_lib.cluster.base.point_to_point import Message, exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Add, Members, adder, checked_out

__all__ = ["broadcast", "hand_down", "hand_up", "reduce"]


def broadcast(
    me: Rank,
    tensor: torch.Tensor,
    *,
    root: int = 0,
    out: torch.Tensor | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Every rank gets the root's tensor. ``out=tensor`` works in place.

    tensor: any shape and dtype, the same on every rank; away from the root its content does not matter.
    Sent: n - 1 messages in all; the root, as the busiest rank, sends log2(n) of them.
    Backward: ``reduce`` of the gradients to the root.
    """
    members = Members.of(me, group)
    root_group_rank = members.group_rank_of(root)
    result = checked_out(out, tensor.shape, tensor)
    if members.group_rank == root_group_rank:
        result.copy_(tensor.detach())
    hand_down(members, result, root_group_rank)
    return result


def reduce(
    me: Rank,
    tensor: torch.Tensor,
    *,
    root: int = 0,
    op: str = "sum",
    out: torch.Tensor | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor | None:
    """The root gets the sum of all tensors, the other ranks None.

    ``out=tensor`` works in place; what is in ``out`` of another rank than the root is then half of a sum.
    tensor: any shape and dtype, the same on every rank. ``op``: "sum", "product", "max" or "min".
    Sent: one message by every rank but the root; the root receives log2(n) of them.
    Backward, of a sum: ``broadcast`` of the gradient from the root.
    """
    members = Members.of(me, group)
    root_group_rank, add = members.group_rank_of(root), adder(op, tensor.dtype)
    total = checked_out(out, tensor.shape, tensor).copy_(tensor.detach())
    hand_up(members, total, add, root_group_rank)
    return total if members.group_rank == root_group_rank else None


def hand_down(members: Members, tensor: torch.Tensor, root_group_rank: int = 0) -> None:
    """Fill ``tensor`` on every rank with that of the root, round by round away from it."""
    relative_rank = (members.group_rank - root_group_rank) % members.count  # counted from the root, which stands at 0
    for reach in _reaches(members.count):
        if relative_rank < reach and relative_rank + reach < members.count:
            _exchange(send(tensor, members.at(members.group_rank + reach)), members)
        elif reach <= relative_rank < 2 * reach:
            _exchange(recv(tensor, members.at(members.group_rank - reach)), members)


def hand_up(members: Members, total: torch.Tensor, add: Add, root_group_rank: int = 0) -> None:
    """Add up ``total`` over all ranks at the root, round by round towards it; the others' are left half-way."""
    relative_rank = (members.group_rank - root_group_rank) % members.count
    for reach in reversed(_reaches(members.count)):
        if relative_rank < reach and relative_rank + reach < members.count:
            arrived = torch.empty_like(total)
            _exchange(recv(arrived, members.at(members.group_rank + reach)), members)
            add(total, arrived, out=total)
        elif reach <= relative_rank < 2 * reach:
            _exchange(send(total, members.at(members.group_rank - reach)), members)


def _reaches(count: int) -> list[int]:
    """How far messages go in each round: 1, 2, 4, ... while somebody is that far away."""
    return [2**number for number in range((count - 1).bit_length())]


def _exchange(message: Message, members: Members) -> None:
    exchange([message] if message.tensor.numel() else [], group=members.group)
