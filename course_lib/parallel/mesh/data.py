"""Which part of a batch is a rank's: the data axes deal it out, and ranks along the other axes see the same.

Ranks that differ in ``tp`` work on one activation together, and those that differ in ``pp`` hand it on: they must be
given the same samples. Only ranks that differ in ``dp_replicate`` or ``dp_shard`` have samples of their own: sharding
shares out *weights*, and the data as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.layouts.mesh import DATA_AXES, Mesh
from course_lib.parallel.collectives.members import split_sizes

__all__ = ["DataShare"]


@checked
@dataclass(frozen=True)
class DataShare:
    """Which of ``count`` shares of each batch a rank is given; a sampler takes the two as rank and world size."""

    dp_rank: int
    count: int

    def __post_init__(self) -> None:
        at_least(0, dp_rank=self.dp_rank)
        at_least(self.dp_rank + 1, count=self.count)

    @classmethod
    def of(cls, mesh: Mesh, rank: int) -> DataShare:
        """Ranks that differ along other axes alone have the same one."""
        return cls(mesh.group_rank(rank, *DATA_AXES), mesh.size(*DATA_AXES))

    def deal(self, *batch: Tensor) -> tuple[Any, ...]:
        """This rank's rows of each tensor, (B, ...) -> (B/n, ...), and last what its mean loss counts for, a float.

        The count is 1 where n divides B. Else ranks hold different numbers of rows, and the mean over ranks is that
        over the batch where each mean is first multiplied by rows * n / B. ``ValueError`` for fewer rows than ranks,
        and for tensors of different lengths.
        """
        num_rows = [len(tensor) for tensor in batch]
        if len(set(num_rows)) != 1:
            raise ValueError(f"tensors of {num_rows} rows were given; those of one batch have as many each")
        at_least(self.count, num_rows=num_rows[0])
        sizes = split_sizes(num_rows[0], self.count)
        mine = [tensor.split(sizes)[self.dp_rank] for tensor in batch]
        return *mine, sizes[self.dp_rank] * self.count / num_rows[0]
