"""Reshard after forward to a smaller group (``reshard_after_forward=int``): gathered again among few, near ranks.

After forward a unit's weights may go back to 1/n on each of n ranks, or stay whole. In between lies a third way: cut
them among m neighbours, such as the GPUs of one machine. Each rank then holds 1/m of every unit that is used, and the
all-gather before backward stays within its m ranks, on their fast link. The all-gather before forward and the
reduce-scatter go among all n, as ever.

On 4 ranks with m = 2, ranks 0 and 1 have all weights between them, and so have ranks 2 and 3::

    rank                  0    1    2    3
    between two steps     1/4  1/4  1/4  1/4
    forward to backward   1/2  1/2  1/2  1/2      # all-gather in backward: 0 with 1, and 2 with 3

That is ``reshard_after_forward=m`` of ``FullySharded``, and of ``torch.distributed.fsdp.fully_shard``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor

from course_lib.base.checks import divides
from course_lib.cluster.base.open_groups import groups_here, ranks_of
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.dim_collectives import start_all_gather
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded.row_sharding import Packing, Rows

__all__ = ["ReshardedPiece", "reshard_members"]


@dataclass(frozen=True)
class ReshardedPiece:
    """What one of ``members`` holds of a unit's weights, packed: (K,). All pieces together are the full weights."""

    members: Members
    packing: Packing
    flat: Tensor

    @classmethod
    def cut(cls, members: Members, unsharded: Sequence[Tensor]) -> ReshardedPiece:
        """This rank's piece of unsharded weights, in memory of its own."""
        rows = [Rows(tuple(tensor.shape), members.count) for tensor in unsharded]
        parts = [one.cut(tensor.detach(), members.group_rank) for one, tensor in zip(rows, unsharded, strict=True)]
        packing = Packing(rows)
        return cls(members, packing, packing.pack_part(parts, unsharded[0].dtype))

    def start_all_gather(self) -> Callable[[], Tensor]:
        """Start it; calling what it returns waits, and gives what all members hold, (n, K)."""
        finish = start_all_gather(self.members, self.flat, 0)
        return lambda: finish().view(self.members.count, -1)


def reshard_members(me: Rank, members: Members, reshard_after_forward: bool | int) -> Members | None:
    """Among whom weights stay cut from forward to backward: ``members`` for True, None (whole) for False.

    A whole number m: this rank and those beside it, m in all; 1 is as False, and the number of members as True. All
    members call, and where they are everybody, everybody; their process group stays, and is found again by the next
    model. ``ValueError`` for a number that does not divide theirs.
    """
    if isinstance(reshard_after_forward, bool):
        return members if reshard_after_forward else None
    count = reshard_after_forward
    divides(members.count, "ranks that share", reshard_after_forward=count)
    if count in (1, members.count):
        return members if count > 1 else None
    every = [members.ranks[first : first + count] for first in range(0, members.count, count)]
    mine, name = every[members.group_rank // count], f"{count} neighbours"
    found = [one for _, one in groups_here() if one.group_desc == name and ranks_of(one) == mine]
    if found:
        return Members.of(me, found[0])
    if members.group is not None:  # nobody here knows the other groups, so only the members of this one call
        group = dist.new_group(mine, use_local_synchronization=True, group_desc=name)
        return Members.of(me, group)
    groups = [dist.new_group(ranks, group_desc=name) for ranks in every]
    return Members.of(me, groups[members.group_rank // count])
