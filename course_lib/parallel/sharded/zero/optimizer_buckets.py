"""What ZeRO stages 1 and 2 send: the gradients and the weights of several parameters, in one message each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course_lib.base.checks import at_least
from course_lib.parallel.collectives.dim_collectives import start_all_gather
from course_lib.parallel.collectives.lean_reduce_scatter import start_lean_reduce_scatter
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded.row_sharding import Packing, Rows
from course_lib.parallel.sharded.zero.gradient_marks import unmark

__all__ = ["OptimizerBucket", "optimizer_buckets"]


class OptimizerBucket:
    """Parameters of one dtype, and this rank's rows of them: ``shards``, which the optimizer updates.

    The rows are views of the parameters, so that updating them updates the model. Copies are they with
    ``master_dtype``, and where a weight's rows do not lie in one piece (of a transposed one, or ``channels_last``):
    fused optimizers go through memory number by number, and the gradient's rows lie in one piece.
    """

    def __init__(self, members: Members, parameters: Sequence[nn.Parameter], master_dtype: torch.dtype | None) -> None:
        self.members, self.parameters = members, tuple(parameters)
        self.packing = Packing([Rows(tuple(p.shape), members.count) for p in parameters])
        self.born_as = (parameters[0].dtype, parameters[0].device)
        self.master_dtype = master_dtype if master_dtype != parameters[0].dtype else None
        self.shards = [nn.Parameter(self._kept(rows)) for rows in self._own_rows()]

    def _own_rows(self) -> list[Tensor]:
        """Of each parameter, as it is now: views."""
        pairs = zip(self.packing.tensors, self.parameters, strict=True)
        return [rows.cut(parameter.detach(), self.members.group_rank) for rows, parameter in pairs]

    def _kept(self, rows: Tensor) -> Tensor:
        """The rows themselves, where they can be a shard."""
        return rows.to(self.master_dtype or rows.dtype).contiguous()

    def follow_the_model(self) -> None:
        """Before a step: the shards are to be rows of what the model is now, which may have been loaded or moved.

        ``RuntimeError`` where a parameter has another shape, dtype or device than it had at first.
        """
        for parameter, rows in zip(self.parameters, self.packing.tensors, strict=True):
            if (tuple(parameter.shape), parameter.dtype, parameter.device) != (rows.shape, *self.born_as):
                dtype, device = self.born_as
                raise RuntimeError(
                    f"a parameter was {dtype} of shape {rows.shape} on {device} when it came to this optimizer, and "
                    f"is {parameter.dtype} of shape {tuple(parameter.shape)} on {parameter.device} now. Move and "
                    "convert a model before you make the optimizer."
                )
        for shard, rows in zip(self.shards, self._own_rows(), strict=True):
            if self.master_dtype:  # it has more digits than the model; what it has not written itself is new
                is_new = rows != shard.to(rows.dtype)
                shard.copy_(torch.where(is_new, rows.to(shard.dtype), shard))
            elif not shard.is_set_to(rows):
                shard.data = self._kept(rows)

    # -- gradients ----------------------------------------------------------------------------------------------

    def start_reduction(self, gradients: Sequence[Tensor | None]) -> Callable[[], Tensor]:
        """Start the reduce-scatter of full gradients; what it returns waits for this rank's part of the mean,
        (K,)."""
        like = self.parameters[0]
        flat = self.packing.pack_full(gradients, like, like.dtype)  # (n, K)
        finish = start_lean_reduce_scatter(self.members, flat)
        return lambda: finish().div_(self.members.count)

    def accumulate(self, flat: Tensor) -> None:
        """Add this rank's rows of the mean gradients, (K,), to the shards' gradients."""
        for shard, rows in zip(self.shards, self.packing.unpack_part(flat, self.members.group_rank), strict=True):
            gradient = rows.to(shard.dtype)
            shard.grad = gradient if shard.grad is None else shard.grad + gradient

    def drop_gradients(self) -> None:
        for parameter, shard in zip(self.parameters, self.shards, strict=True):
            shard.grad = None
            unmark(parameter)

    # -- weights ------------------------------------------------------------------------------------------------

    def update_own_rows(self) -> None:
        """Where the optimizer has copies of the rows: bring them back into the model."""
        for rows, shard in zip(self._own_rows(), self.shards, strict=True):
            if not shard.is_set_to(rows):
                rows.copy_(shard)

    def start_gather(self) -> Callable[[], Tensor]:
        """Start the all-gather of all ranks' rows; what it returns waits for them, (n K,)."""
        part = self.packing.pack_part(self._own_rows(), self.parameters[0].dtype)
        return start_all_gather(self.members, part, 0)

    def take(self, flat: Tensor) -> None:
        """Write all ranks' rows, (n K,), into the parameters."""
        self.packing.unpack_full(flat.view(self.members.count, -1), [p.detach() for p in self.parameters])

    def full(self, index: int, own: Tensor) -> Tensor:
        """Something that each rank has for its rows (an optimizer's state), for all rows: with the weight's strides."""
        packing = Packing([self.packing.tensors[index]])
        flat = start_all_gather(self.members, packing.pack_part([own], own.dtype), 0)()
        full = torch.empty_like(self.parameters[index].detach(), dtype=own.dtype)
        packing.unpack_full(flat.view(self.members.count, -1), [full])
        return full


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
