"""All-reduce by four algorithms: the same sum, at very different cost.

=================  ==================  ==========================  ======================
n ranks, size S    messages in a row   sent by the busiest rank    good for
=================  ==================  ==========================  ======================
naive              2                   (n - 1) S                   nothing but reading
tree               2 log2(n)           log2(n) S                   small tensors
ring               2 (n - 1)           2 (n - 1)/n S               large tensors
halving-doubling   2 log2(n)           2 (n - 1)/n S               n a power of two
=================  ==================  ==========================  ======================

"naive" is a gather and a broadcast through one rank, the style of a parameter server; its bottleneck is that rank's
port. "tree" is a binomial tree.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.halving_doubling import halving_doubling_all_reduce
from course_lib.parallel.collectives.members import Add, Members, adder, checked_out, in_one_piece
from course_lib.parallel.collectives.ring import ring_all_reduce
from course_lib.parallel.collectives.tree import hand_down, hand_up

__all__ = ["ALL_REDUCE_ALGORITHMS", "all_reduce"]


def all_reduce(
    me: Rank,
    tensor: torch.Tensor,
    *,
    op: str = "sum",
    algorithm: str = "ring",
    out: torch.Tensor | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Every rank gets the sum of all tensors. ``out=tensor`` works in place, as ``torch.distributed.all_reduce`` does.

    tensor: any shape and dtype, the same on every rank. ``op``: "sum", "product", "max" or "min". ``algorithm``:
    "ring", "tree", "halving-doubling" or "naive". Sums of floats differ by rounding between algorithms.
    Backward, of a sum: ``all_reduce`` of the gradients.
    """
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"algorithm={algorithm!r} is not known; use one of {', '.join(_ALGORITHMS)}")
    members, add = Members.of(me, group), adder(op, tensor.dtype)
    result = checked_out(out, tensor.shape, tensor)
    _ALGORITHMS[algorithm](members, in_one_piece(tensor), result, add)
    return result


def _naive(members: Members, tensor: torch.Tensor, out: torch.Tensor, add: Add) -> None:
    """The first rank gets every tensor, adds them up, and sends the sum to everybody: gather + broadcast."""
    out.copy_(tensor)
    if not out.numel():
        return
    first, others = members.ranks[0], members.ranks[1:]
    if members.group_rank:
        exchange([send(out, first)], group=members.group)
        exchange([recv(out, first)], group=members.group)
        return
    arrived = [torch.empty_like(out) for _ in others]
    pairs = zip(arrived, others, strict=True)
    exchange([recv(room, rank) for room, rank in pairs], group=members.group)
    for room in arrived:
        add(out, room, out=out)
    exchange([send(out, rank) for rank in others], group=members.group)


def _tree(members: Members, tensor: torch.Tensor, out: torch.Tensor, add: Add) -> None:
    """Sums go up a tree to the first rank, and the total comes down the same tree."""
    out.copy_(tensor)
    hand_up(members, out, add)
    hand_down(members, out)


_ALGORITHMS: dict[str, Callable[..., None]] = {
    "ring": ring_all_reduce,
    "tree": _tree,
    "halving-doubling": halving_doubling_all_reduce,
    "naive": _naive,
}
ALL_REDUCE_ALGORITHMS = tuple(_ALGORITHMS)
