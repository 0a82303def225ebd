"""What ZeRO stages 1 and 2 send: the gradients and the weights of several parameters, in one message each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course_lib.checks import at_least
from course_lib.parallel.collectives.dim_collectives import start_all_gather
from course_lib.parallel.collectives.lean_reduce_scatter import start_lean_reduce_scatter
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded.rows import Packing, Rows, all_gather_rows

__all__ = ["OptimizerBucket", "optimizer_buckets"]


class OptimizerBucket:
    """Parameters of one dtype, and this rank's rows of them: ``shards``, which the optimizer updates.

    The rows are views of the parameters, so that updating them updates the model; with ``master_dtype`` they are
    copies.
    """

    def __init__(
        self, members: Members, parameters: Sequence[nn.Parameter], master_dtype: torch.dtype | None
    ) -> None:
        self.members, self.parameters = members, tuple(parameters)
        self.packing = Packing([Rows(tuple(p.shape), members.count) for p in parameters])
        self.master_dtype = master_dtype if master_dtype != parameters[0].dtype else None
        self.shards = [
            nn.Parameter(view.to(master_dtype) if self.master_dtype else view) for view in self._own_rows()
        ]

    def _own_rows(self) -> list[Tensor]:
        pairs = zip(self.packing.tensors, self.parameters, strict=True)
        return [rows.cut(parameter.detach(), self.members.place) for rows, parameter in pairs]

    # -- gradients ----------------------------------------------------------------------------------------------

    def start_reduction(self, gradients: Sequence[Tensor | None]) -> Callable[[], Tensor]:
        """Start the reduce-scatter of whole gradients; what it returns waits for this rank's part of the mean,
        (K,)."""
        like = self.parameters[0]
        flat = self.packing.pack_whole(gradients, like, like.dtype)  # (n, K)
        finish = start_lean_reduce_scatter(self.members, flat)
        return lambda: finish().div_(self.members.count)

    def accumulate(self, flat: Tensor) -> None:
        """Add this rank's rows of the mean gradients, (K,), to the shards' gradients."""
        for shard, rows in zip(self.shards, self.packing.unpack_part(flat, self.members.place), strict=True):
            gradient = rows.to(shard.dtype)
            shard.grad = gradient if shard.grad is None else shard.grad + gradient

    def drop_gradients(self) -> None:
        for shard in self.shards:
            shard.grad = None

    # -- weights ------------------------------------------------------------------------------------------------

    def update_own_rows(self) -> None:
        """Where the optimizer has rows of its own: copy them into the model."""
        if self.master_dtype:
            for view, shard in zip(self._own_rows(), self.shards, strict=True):
                view.copy_(shard)

    def start_gather(self) -> Callable[[], Tensor]:
        """Start the all-gather of all ranks' rows; what it returns waits for them, (n K,)."""
        part = self.packing.pack_part(self._own_rows(), self.parameters[0].dtype)
        return start_all_gather(self.members, part, 0)

    def take(self, flat: Tensor) -> None:
        """Write all ranks' rows, (n K,), into the parameters."""
        self.packing.unpack_whole(flat.view(self.members.count, -1), [p.detach() for p in self.parameters])

    def whole(self, rows: Rows, own: Tensor) -> Tensor:
        """Something that each rank has for its rows (an optimizer's state), for all of them."""
        return all_gather_rows(self.members, Packing([rows]), [own])[0]


def optimizer_buckets(
    members: Members,
    parameters: Sequence[nn.Parameter],
    bucket_size_bytes: int,
    master_dtype: torch.dtype | None,
) -> list[OptimizerBucket]:
    """Buckets in the order in which backward finds gradients: from the end of the model."""
    at_least(1, bucket_size_bytes=bucket_size_bytes)
    groups: list[list[nn.Parameter]] = []
    open_groups: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for parameter in reversed(parameters):
        kind = (parameter.dtype, parameter.device)
        group = open_groups.setdefault(kind, [])
        if not group:
            groups.append(group)
        group.append(parameter)
        if sum(p.nbytes for p in group) >= bucket_size_bytes:
            del open_groups[kind]
    return [OptimizerBucket(members, group, master_dtype) for group in groups]
