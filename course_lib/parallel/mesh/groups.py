"""The process groups of a mesh: for each axis the ranks with which this one shares all other coordinates.

All ranks make all groups, in the same order, also those that they are not in: ``new_group`` is itself a collective.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.collectives.members import Members

__all__ = ["MeshGroups"]


class MeshGroups:
    """This rank's place in a mesh, and its groups.

    ``together`` names axes that form a group as one, such as ``[("dp_replicate", "dp_shard")]``, over which gradients
    are averaged. Every rank of the job makes one, with the same mesh. ``ValueError`` where the mesh has another number
    of ranks than the job, and for a group that was not asked for.
    """

    def __init__(self, me: Rank, mesh: Mesh, together: Sequence[tuple[str, ...]] = ()) -> None:
        if mesh.num_ranks != me.world_size:
            raise ValueError(
                f"the mesh {mesh} has {mesh.num_ranks} ranks, and this job has {me.world_size}: the sizes of all axes "
                "together make up the number of ranks"
            )
        self.me, self.mesh, self.is_closed = me, mesh, False
        self._group_of: dict[frozenset[str], dist.ProcessGroup] = {}
        for axes in [*((axis,) for axis in mesh.axes), *together]:
            if frozenset(axes) in self._group_of:
                continue
            for ranks in mesh.groups(*axes):
                group = dist.new_group(list(ranks))
                if me.rank in ranks:
                    self._group_of[frozenset(axes)] = group

    @property
    def coordinates(self) -> dict[str, int]:
        """This rank's number along each axis."""
        return self.mesh.coordinates(self.me.rank)

    def group(self, *axes: str) -> dist.ProcessGroup:
        """The group of this rank along these axes. ``RuntimeError`` after ``close``."""
        if self.is_closed:
            raise RuntimeError("these groups are closed: make new ones on every rank by MeshGroups(me, mesh)")
        found = self._group_of.get(frozenset(axes))
        if found is None:
            there = ", ".join(" and ".join(sorted(one, key=self.mesh.axes.index)) for one in self._group_of)
            raise ValueError(
                f"there is no group along {' and '.join(axes) or 'no axis'}; there are those along {there}. Ask for "
                "others when the groups are made: MeshGroups(me, mesh, together=[...])."
            )
        return found

    def members(self, *axes: str) -> Members:
        """Who is in that group, and at which place this rank is."""
        return Members.of(self.me, self.group(*axes))

    def close(self) -> None:
        """End the groups of which this rank is a member; all ranks do.

        They wait for each other first: gloo's connections are there on one rank before they are on the other, which
        fails if the first has ended them by then. Closed groups stay closed: nothing is done again.
        """
        if self.is_closed:
            return
        dist.barrier()
        self.is_closed = True
        for group in self._group_of.values():
            dist.destroy_process_group(group)
        self._group_of.clear()
