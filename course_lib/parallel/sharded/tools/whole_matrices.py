"""Optimizers that need whole matrices, on shards: Muon, for one.

Muon turns the gradient of a matrix into the nearest orthogonal matrix. The rows of an orthogonal matrix belong
together: made orthogonal by themselves, a rank's rows become something else. Nothing fails; the update is another
one. So each matrix gets an *owner*: the rank that collects its gradient's rows, takes the whole step, and gives the
new rows back. Matrices are dealt out by size, so each rank steps about 1/n of them, and the ranks' states together
are those of one optimizer.

Source: Jordan et al., "Muon" (2024); Liu et al., "Muon is Scalable for LLM Training" (2025), section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.parallel.sharded.at_rest import ShardedParameter
from course_lib.parallel.sharded.fully_sharded import FullySharded
from course_lib.parallel.sharded.row_sharding import Packing

__all__ = ["WholeMatrixOptimizer", "assign_owners"]


class WholeMatrixOptimizer:
    """``optimizer_class`` on full parameters of a sharded model, each stepped by its owner.

    ``WholeMatrixOptimizer(model, torch.optim.Muon, names=[...], lr=0.02)``: ``names`` are those of the parameters
    that it trains (all of two dims where none are given); give the others to another optimizer. Each rank sends its
    rows of the gradient and gets its rows of the weight: (n-1)/n of both.

    ``ValueError`` for a name that the model does not have, or has frozen.
    """

    def __init__(
        self,
        model: FullySharded,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        names: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        self.members, self.parameters = model.members, _chosen(model, names)
        self.owners = assign_owners([p.rows.shape for p in self.parameters], self.members.count)
        full = {p: t for unit in model.units for p, t in zip(unit.parameters, unit.copies(), strict=True)}
        self.owned = {
            p: nn.Parameter(full[p])
            for p, owner in zip(self.parameters, self.owners, strict=True)
            if owner == self.members.group_rank
        }
        self.inner = optimizer_class(list(self.owned.values()), **options) if self.owned else None

    @torch.no_grad()
    def step(self) -> None:
        """Every rank calls it, with gradients on the shards."""
        for parameter, owner in zip(self.parameters, self.owners, strict=True):
            if parameter.shard.grad is None:
                raise RuntimeError(f"{parameter.name} has no gradient: call backward() before step()")
            full = self._collect(parameter, parameter.shard.grad, owner)
            if full is not None:
                self.owned[parameter].grad = full
        if self.inner is not None:
            self.inner.step()
        for parameter, owner in zip(self.parameters, self.owners, strict=True):
            self._scatter(parameter, owner)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.shard.grad = None

    def _collect(self, parameter: ShardedParameter, rows: Tensor, owner: int) -> Tensor | None:
        """All ranks' rows, on the owner: (R, ...)."""
        packing = Packing([parameter.rows])
        part = packing.pack_part([rows], rows.dtype)  # (k,)
        parts = torch.empty(self.members.count, *part.shape, dtype=part.dtype, device=part.device)  # (n, k)
        mine = self.members.group_rank == owner
        dist.gather(part, list(parts) if mine else None, dst=self.members.at(owner), group=self.members.group)
        if not mine:
            return None
        full = torch.empty(parameter.rows.shape, dtype=part.dtype, device=part.device)
        packing.unpack_full(parts, [full])
        return full

    def _scatter(self, parameter: ShardedParameter, owner: int) -> None:
        """The owner's new weight, to every rank its rows."""
        packing, shard = Packing([parameter.rows]), parameter.shard
        part = torch.empty(packing.part_numel, dtype=shard.dtype, device=shard.device)
        parts = None
        if self.members.group_rank == owner:
            parts = list(packing.pack_full([self.owned[parameter].detach()], shard, shard.dtype))
        dist.scatter(part, parts, src=self.members.at(owner), group=self.members.group)
        shard.copy_(packing.unpack_part(part, self.members.group_rank)[0])


def _chosen(model: FullySharded, names: Iterable[str] | None) -> list[ShardedParameter]:
    known = {p.name: p for unit in model.units for p in unit.parameters}
    if names is None:
        return [p for p in known.values() if len(p.rows.shape) == 2 and p.shard.requires_grad]
    for name in names:
        if name not in known or not known[name].shard.requires_grad:
            raise ValueError(f"the model has no parameter {name!r} to train; it has {', '.join(list(known)[:5])}, ...")
    return [known[name] for name in names]


def assign_owners(shapes: Iterable[tuple[int, ...]], num_ranks: int) -> list[int]:
    """An owner for each tensor: the largest first, each to the rank that has least so far."""
    sizes = [torch.Size(shape).numel() for shape in shapes]
    loads, owners = [0] * num_ranks, [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owners[i] = loads.index(min(loads))
        loads[owners[i]] += sizes[i]
    return owners
