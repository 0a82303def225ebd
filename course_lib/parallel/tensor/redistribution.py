"""Placements at work: cut a tensor as a placement says, change the placement, and run a ``MatmulPlan`` on real ranks.

No autograd here: the backward pass of a plan is written out, as its data says.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.dim_collectives import (
    own_part,
    start_all_gather,
    start_all_reduce,
    start_all_to_all,
    start_reduce_scatter,
)
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.tensor.placements import MatmulPlan, Partial, Placement, Replicate, Shard

__all__ = ["local_part", "redistribute", "run_matmul"]

Group = dist.ProcessGroup | None


def local_part(me: Rank, full: torch.Tensor, placement: Placement, *, group: Group = None) -> torch.Tensor:
    """What this rank holds of ``full``. Nothing is sent: every rank has it all.

    Partial sums are uneven on purpose: rank r of n holds 2 (r + 1) / (n (n + 1)) of the tensor.
    """
    members = Members.of(me, group)
    if isinstance(placement, Shard):
        return own_part(members, full, placement.dim).clone()
    if isinstance(placement, Partial):
        n = members.count
        return full * (2 * (members.group_rank + 1) / (n * (n + 1)))
    return full.clone()


def redistribute(
    me: Rank, local: torch.Tensor, source: Placement, target: Placement, *, group: Group = None
) -> torch.Tensor:
    """``local``, placed as ``source`` says, placed as ``target`` says; ``change(source, target)`` is what it takes.

    Every rank calls it with the same placements. A dim that is cut must divide by the number of ranks, else a
    ``ValueError``.
    """
    members = Members.of(me, group)
    if source == target or members.count == 1:
        return local
    if isinstance(source, Replicate):
        if isinstance(target, Shard):
            return own_part(members, local, target.dim).clone()
        return local if members.group_rank == 0 else torch.zeros_like(local)
    if isinstance(source, Partial):
        if isinstance(target, Shard):
            return start_reduce_scatter(members, local, target.dim)()
        return start_all_reduce(members, local.clone(memory_format=torch.contiguous_format))()
    if isinstance(target, Shard):
        return start_all_to_all(members, local, cut_dim=target.dim, join_dim=source.dim)()
    if isinstance(target, Replicate):
        return start_all_gather(members, local, source.dim)()
    return _among_zeros(members, local, source.dim)


def run_matmul(
    me: Rank, plan: MatmulPlan, x: torch.Tensor, a: torch.Tensor, grad_y: torch.Tensor, *, group: Group = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """This rank's parts of Y, dX and dA, from its parts of X, A and dY, by the steps of ``plan`` and no others.

    x (N, K), a (K, M) and grad_y (N, M) are placed as ``plan.x``, ``plan.a`` and ``gradient_placement(plan.y)``.
    """
    forward = {step.tensor: step for step in plan.forward}
    backward = {step.tensor: step for step in plan.backward}

    def changed(tensor: torch.Tensor, name: str) -> torch.Tensor:
        step = forward.get(name) or backward.get(name)
        return tensor if step is None else redistribute(me, tensor, step.source, step.target, group=group)

    x_used, a_used = changed(x, "X"), changed(a, "A")
    y = changed(x_used @ a_used, "Y")
    grad_product = changed(grad_y, "dY")
    # mH: .T of real ones.
    return (y, changed(grad_product @ a_used.mH, "dX"), changed(x_used.mH @ grad_product, "dA"))


def _among_zeros(members: Members, part: torch.Tensor, dim: int) -> torch.Tensor:
    """The part in its place, zeros where the other ranks' parts are."""
    shape = list(part.shape)
    shape[dim] *= members.count
    full = part.new_zeros(shape)
    own_part(members, full, dim).copy_(part)
    return full
