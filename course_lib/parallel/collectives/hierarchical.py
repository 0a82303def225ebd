"""Hierarchical all-reduce, of three collectives: for nodes whose own links are faster than those between them.

Two nodes of three ranks, and a tensor in three parts, one for each place in a node::

                                rank 0       rank 1       rank 2     |     rank 3       rank 4       rank 5
    1  reduce-scatter inside    part 0       part 1       part 2     |     part 0       part 1       part 2
       has now the sum of its   node         node         node       |     node         node         node
    2  all-reduce between       with rank 3  with rank 4  with rank 5
       has now the sum of       everybody    everybody    everybody  |     everybody    everybody    everybody
    3  all-gather inside        all three parts

Between nodes a rank sends twice (nodes - 1)/nodes of *its part*, so what leaves a node is about what one flat ring
would send from there; but the messages that wait for each other across nodes are 2 (nodes - 1), and not
2 (nodes x ranks_per_node - 1). What it should cost: ``course_lib.cost.mesh.all_reduce_at_scale``. Source: Mikami et
al., *Massively Distributed SGD: ImageNet/ResNet-50 Training in a Flash* (2018), where rows and columns of a torus
are what nodes are here.

No process group is made: messages go from rank to rank, and ``Members`` says whose turn it is. With collectives of
``torch.distributed`` each storey needs its groups, which all ranks make in the same order (``dist.new_group``).
"""

from __future__ import annotations

import torch

from course_lib.base.checks import divides
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members, adder, checked_out, in_one_piece
from course_lib.parallel.collectives.ring import gather_around, reduce_around, ring_all_reduce

__all__ = ["hierarchical_all_reduce"]


def hierarchical_all_reduce(
    me: Rank,
    tensor: torch.Tensor,
    ranks_per_node: int,
    *,
    op: str = "sum",
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Every rank gets the sum of all tensors. ``out=tensor`` works in place.

    tensor: any shape and dtype, the same on every rank. ``ranks_per_node``: ranks 0 .. ranks_per_node - 1 are the
    first node, and so on; ``ValueError`` where it does not divide the number of ranks. Sums of floats differ from
    those of other algorithms by rounding. ``op``: "sum", "product", "max" or "min".
    Backward, of a sum: ``all_reduce`` of the gradients.
    """
    divides(me.world_size, "ranks", ranks_per_node=ranks_per_node)
    add = adder(op, tensor.dtype)
    result = checked_out(out, tensor.shape, tensor)
    inside, between = _levels(me, ranks_per_node)

    given, total = in_one_piece(tensor).view(-1), result.view(-1)
    mine, parts = given.tensor_split(inside.count), total.tensor_split(inside.count)
    own = parts[inside.group_rank]
    if inside.count == 1:
        own.copy_(mine[0])
    reduce_around(inside, mine, dict(enumerate(parts)), add)  # own: the sum of this node
    ring_all_reduce(between, own, own, add)  # own: the sum of everybody
    gather_around(inside, parts)
    return result


def _levels(me: Rank, ranks_per_node: int) -> tuple[Members, Members]:
    """The ranks of this rank's node, and those with the same local rank; this rank is one of either."""
    node, local_rank = divmod(me.rank, ranks_per_node)
    first = node * ranks_per_node
    inside = Members(local_rank, tuple(range(first, first + ranks_per_node)), None)
    return inside, Members(node, tuple(range(local_rank, me.world_size, ranks_per_node)), None)
