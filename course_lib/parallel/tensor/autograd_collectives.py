"""The conjugate operators: what goes forward by one collective comes backward by another, and autograd knows it.

=============================  ==================  ==================  =====================================
function                       forward             backward            between
=============================  ==================  ==================  =====================================
``identity_all_reduce``        identity            all-reduce          replicated, and cut by features (f)
``all_reduce_identity``        all-reduce          identity            partial sums, and replicated (g)
``all_gather_reduce_scatter``  all-gather          reduce-scatter      cut by positions, and by features
``reduce_scatter_all_gather``  reduce-scatter      all-gather          partial sums, and cut by positions
``split_all_gather``           split               all-gather          replicated, and cut
``all_gather_split``           all-gather          split               cut, and replicated
=============================  ==================  ==================  =====================================

The pairs keep one convention: the gradient of what is the same on all ranks is the same, and complete, on all of
them; the gradient of a part is that part of the gradient. It holds where every rank computes the loss from the
replicated result, once. Each function's backward *is* the other function of its pair, so gradients of gradients come
out right as well.

f and g are the names in Shoeybi et al., "Megatron-LM" (2019), section 3; the pair along positions is g and g-bar in
Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022), section 4.2.2. Megatron-LM's
code (``tensor_parallel/mappings.py``) has the six, in the order of the table, as ``copy_to`` and ``reduce_from`` the
tensor model parallel region, ``gather_from`` and ``reduce_scatter_to`` the sequence parallel region, ``scatter_to`` and
``gather_from`` the tensor model parallel region.

Every function takes ``me``, a tensor, and the ``group`` of ranks that share it (None: all). Cutting and joining goes
along ``dim``, whose size must divide by the number of ranks, else a ``ValueError``. A single rank gets its tensor back.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.dim_collectives import (
    own_part,
    start_all_gather,
    start_all_reduce,
    start_reduce_scatter,
)
from course_lib.parallel.collectives.members import Members

__all__ = [
    "all_gather_reduce_scatter",
    "all_gather_split",
    "all_reduce_identity",
    "identity_all_reduce",
    "reduce_scatter_all_gather",
    "split_all_gather",
]

Group = dist.ProcessGroup | None


def identity_all_reduce(me: Rank, x: torch.Tensor, *, group: Group = None) -> torch.Tensor:
    """f, or ``copy_to``: enter a region where ranks work on different features. x: any shape, the same on all ranks.

    Forward: nothing is sent. Backward: all-reduce, because each rank's gradient tells of its own features alone.
    """
    return _between(_IdentityAllReduce, me, group, x)


def all_reduce_identity(me: Rank, x: torch.Tensor, *, group: Group = None) -> torch.Tensor:
    """g, or ``reduce_from``: leave that region. x: this rank's partial sum, any shape; returned is the sum over ranks.

    Forward: all-reduce. Backward: nothing is sent; the sum's gradient is every summand's gradient.
    """
    return _between(_AllReduceIdentity, me, group, x)


def all_gather_reduce_scatter(me: Rank, x: torch.Tensor, *, dim: int = 0, group: Group = None) -> torch.Tensor:
    """(..., size, ...) -> (..., n size, ...), for use by ranks that work on different features.

    Forward: all-gather along ``dim``. Backward: reduce-scatter, because every rank used every part, each for its own
    features: those gradients are added up, and each rank gets the sum for its part.
    """
    return _between(_AllGatherReduceScatter, me, group, x, dim)


def reduce_scatter_all_gather(me: Rank, x: torch.Tensor, *, dim: int = 0, group: Group = None) -> torch.Tensor:
    """Partial sums (..., size, ...) -> this rank's part of their sum (..., size/n, ...).

    Forward: reduce-scatter along ``dim``. Backward: all-gather, because every summand needs the whole gradient.
    """
    return _between(_ReduceScatterAllGather, me, group, x, dim)


def split_all_gather(me: Rank, x: torch.Tensor, *, dim: int = 0, group: Group = None) -> torch.Tensor:
    """What is the same on all ranks (..., size, ...) -> this rank's part (..., size/n, ...).

    Forward: nothing is sent, each rank keeps its part. Backward: all-gather along ``dim``.
    """
    return _between(_SplitAllGather, me, group, x, dim)


def all_gather_split(me: Rank, x: torch.Tensor, *, dim: int = 0, group: Group = None) -> torch.Tensor:
    """Parts (..., size, ...) -> the whole on every rank (..., n size, ...), for use that is the same on all ranks.

    Forward: all-gather along ``dim``. Backward: nothing is sent, each rank keeps its part of the gradient. Where ranks
    use the whole in different ways, ``all_gather_reduce_scatter`` is the one to take.
    """
    return _between(_AllGatherSplit, me, group, x, dim)


def _between(function: type[Function], me: Rank, group: Group, x: torch.Tensor, *dim: int) -> torch.Tensor:
    members = Members.of(me, group)
    return x if members.count == 1 else function.apply(members, x, *dim)


class _IdentityAllReduce(Function):
    @staticmethod
    def forward(ctx: Any, members: Members, x: torch.Tensor) -> torch.Tensor:
        ctx.members = members
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, _AllReduceIdentity.apply(ctx.members, grad)


class _AllReduceIdentity(Function):
    @staticmethod
    def forward(ctx: Any, members: Members, x: torch.Tensor) -> torch.Tensor:
        ctx.members = members
        return start_all_reduce(members, x.clone(memory_format=torch.contiguous_format))()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, _IdentityAllReduce.apply(ctx.members, grad)


class _AllGatherReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, members: Members, x: torch.Tensor, dim: int) -> torch.Tensor:
        ctx.members, ctx.dim = members, dim
        return start_all_gather(members, x, dim)()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, _ReduceScatterAllGather.apply(ctx.members, grad, ctx.dim), None


class _ReduceScatterAllGather(Function):
    @staticmethod
    def forward(ctx: Any, members: Members, x: torch.Tensor, dim: int) -> torch.Tensor:
        ctx.members, ctx.dim = members, dim
        return start_reduce_scatter(members, x, dim)()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, _AllGatherReduceScatter.apply(ctx.members, grad, ctx.dim), None


class _SplitAllGather(Function):
    @staticmethod
    def forward(ctx: Any, members: Members, x: torch.Tensor, dim: int) -> torch.Tensor:
        ctx.members, ctx.dim = members, dim
        return own_part(members, x, dim).clone()  # a copy, so that the whole need not stay in memory

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, _AllGatherSplit.apply(ctx.members, grad, ctx.dim), None


class _AllGatherSplit(Function):
    @staticmethod
    def forward(ctx: Any, members: Members, x: torch.Tensor, dim: int) -> torch.Tensor:
        ctx.members, ctx.dim = members, dim
        return start_all_gather(members, x, dim)()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, _SplitAllGather.apply(ctx.members, grad, ctx.dim), None
