"""Right answers to 09.deal in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh import DataShare

__all__ = ["ANSWERS", "SAME"]


def by_coordinates(me: Rank, mesh: Mesh, batch: Tensor) -> Tensor:
    here, sizes = mesh.coordinates(me.rank), dict(zip(mesh.axes, mesh.shape, strict=True))
    shards = sizes.get("dp_shard", 1)
    number = here.get("dp_replicate", 0) * shards + here.get("dp_shard", 0)
    return batch.chunk(sizes.get("dp_replicate", 1) * shards)[number]


def by_the_deal(me: Rank, mesh: Mesh, batch: Tensor) -> Any:
    mine, _ = DataShare.of(mesh, me.rank).deal(batch)
    return mine


def every_nth(me: Rank, mesh: Mesh, batch: Tensor) -> Tensor:
    """As a ``DistributedSampler`` deals, the replicas counting fastest."""
    axes = ("dp_shard", "dp_replicate")
    return batch[mesh.group_rank(me.rank, *axes) :: mesh.size(*axes)]


def by_the_group(me: Rank, mesh: Mesh, batch: Tensor) -> Tensor:
    """My place among the ranks that differ from me along the data axes alone."""
    group = sorted(mesh.group(me.rank, "dp_replicate", "dp_shard"))
    return batch.tensor_split(len(group))[group.index(me.rank)].clone()


def by_who_works_together(me: Rank, mesh: Mesh, batch: Tensor) -> Tensor:
    """Groups of ranks with the same samples, and which of them is mine."""
    teams = mesh.groups("pp", "tp")
    mine = next(number for number, ranks in enumerate(teams) if me.rank in ranks)
    size = len(batch) // len(teams)
    return batch[mine * size : (mine + 1) * size]


ANSWERS = (by_coordinates, by_the_deal, every_nth, by_the_group, by_who_works_together)
SAME: dict[str, str] = {}
