"""All-reduce in 2 log2(n) messages of shrinking and growing size: recursive halving, then recursive doubling.

With 8 ranks a rank exchanges half of the tensor with the one 4 away, a quarter with the one 2 away, an eighth with
its neighbour, and has then the complete sum of an eighth; the same way back, doubling, brings it the rest. The bytes
are those of a ring and the rounds those of a tree, but partners are far apart, so on a machine or network where distant
ranks share links it can lose to the ring. Source: Rabenseifner, *Optimization of Collective Reduction Operations*
(2004). Ranks beyond the largest power of two hand in their tensor first and get the result last.
"""

from __future__ import annotations

import torch

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.parallel.collectives.members import Add, Members

__all__ = ["halving_doubling_all_reduce"]


def halving_doubling_all_reduce(members: Members, tensor: torch.Tensor, out: torch.Tensor, add: Add) -> None:
    """Put the sum of all tensors into ``out``, which may be ``tensor``."""
    total = out.copy_(tensor).view(-1)
    if not total.numel():
        return
    core = 2 ** (members.count.bit_length() - 1)  # the largest power of two
    group_rank, extra = members.group_rank, members.count - core
    if group_rank >= core:
        exchange([send(total, members.at(group_rank - core))], group=members.group)
        exchange([recv(total, members.at(group_rank - core))], group=members.group)
        return
    if group_rank < extra:
        arrived = torch.empty_like(total)
        exchange([recv(arrived, members.at(group_rank + core))], group=members.group)
        add(total, arrived, out=total)
    _halve_and_double(members, total, add, core)
    if group_rank < extra:
        exchange([send(total, members.at(group_rank + core))], group=members.group)


def _halve_and_double(members: Members, total: torch.Tensor, add: Add, core: int) -> None:
    """The all-reduce among the first ``core`` members, a power of two."""
    path, span = [], total
    distance = core // 2
    while distance:
        partner = members.group_rank ^ distance  # the place that differs in one binary digit
        low, high = span.tensor_split(2)
        keep, give = (low, high) if members.group_rank < partner else (high, low)
        arrived = torch.empty_like(keep)
        _swap(members, give, arrived, partner)
        add(keep, arrived, out=keep)
        path.append((keep, give, partner))
        span, distance = keep, distance // 2
    for keep, give, partner in reversed(path):  # back the same way: what we gave comes home complete
        _swap(members, keep, give, partner)


def _swap(members: Members, give: torch.Tensor, take: torch.Tensor, partner: int) -> None:
    peer = members.at(partner)
    messages = [send(give, peer)] if give.numel() else []
    messages += [recv(take, peer)] if take.numel() else []
    exchange(messages, group=members.group)
