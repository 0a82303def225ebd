"""PyTorch's collectives along any dim of a tensor, started now and waited for later; autograd knows nothing of them.

Each ``start_...`` puts the collective on its way and returns at once; calling what it returned waits for the result::

    finish = start_all_reduce(members, grad_x)
    grad_weight = grad_y.T @ x          # computed while grad_x is on its way
    grad_x = finish()

``torch.distributed`` joins and cuts tensors along dim 0 alone. For another dim the parts are laid out one after the
other before they are sent, or after they have come: one copy, and none for dim 0.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from course_lib.base.checks import nearest_multiple
from course_lib.cluster.base.flat_collectives import flat_collective
from course_lib.parallel.collectives.members import Members, in_one_piece

__all__ = [
    "even_share",
    "own_part",
    "start_all_gather",
    "start_all_reduce",
    "start_all_to_all",
    "start_reduce_scatter",
]

Finish = Callable[[], torch.Tensor]
SUM = dist.ReduceOp.SUM


def start_all_reduce(members: Members, x: torch.Tensor, *, op: dist.ReduceOp.RedOpType = SUM) -> Finish:
    """``x`` itself becomes the sum (or what ``op`` says) of every rank's ``x``: any shape, in one piece of memory."""
    work = dist.all_reduce(x, op, group=members.group, async_op=True)
    return _after(work, lambda: x)


def start_all_gather(members: Members, x: torch.Tensor, dim: int) -> Finish:
    """Every rank's ``x`` behind each other along ``dim``: (..., size, ...) -> (..., n size, ...)."""
    mine = in_one_piece(x)
    every = mine.new_empty(members.count, *mine.shape)  # (n, ..., size, ...)
    work = flat_collective("all_gather")(every.flatten(0, 1), mine, group=members.group, async_op=True)
    return _after(work, lambda: _joined(every, dim))


def start_reduce_scatter(members: Members, x: torch.Tensor, dim: int) -> Finish:
    """This rank's part, along ``dim``, of the sum of every rank's ``x``: (..., size, ...) -> (..., size/n, ...)."""
    parts = _cut(members, x.detach(), dim)  # (n, ..., size/n, ...)
    mine = torch.empty_like(parts[0])
    work = flat_collective("reduce_scatter")(mine, parts.flatten(0, 1), group=members.group, async_op=True)
    return _after(work, lambda: mine)


def start_all_to_all(members: Members, x: torch.Tensor, cut_dim: int, join_dim: int) -> Finish:
    """Cut ``x`` along one dim, send a part to each rank, join what comes along another dim."""
    parts = _cut(members, x.detach(), cut_dim)  # (n, ...)
    received = torch.empty_like(parts)
    work = dist.all_to_all_single(received, parts, group=members.group, async_op=True)
    return _after(work, lambda: _joined(received, join_dim))


def own_part(members: Members, x: torch.Tensor, dim: int) -> torch.Tensor:
    """This rank's part of ``x`` along ``dim``, cut evenly: a view, nothing is sent."""
    size = even_share(x, dim, members.count)
    return x.narrow(dim, members.group_rank * size, size)


def even_share(x: torch.Tensor, dim: int, num_parts: int) -> int:
    """The size of each part of ``dim`` when ``x`` is cut evenly; a ``ValueError`` where that cannot be."""
    size = x.size(dim)
    if size % num_parts:
        raise ValueError(
            f"dim {dim} of a tensor of shape {tuple(x.shape)} has size {size}, which does not divide among "
            f"{num_parts} ranks: every rank gets an equal part. The nearest size that works is "
            f"{nearest_multiple(size, num_parts)}."
        )
    return size // num_parts


def _cut(members: Members, x: torch.Tensor, dim: int) -> torch.Tensor:
    """(..., size, ...) -> (n, ..., size/n, ...), each part in one piece of memory."""
    even_share(x, dim, members.count)
    return in_one_piece(x.unflatten(dim, (members.count, -1)).movedim(dim % x.dim(), 0))


def _joined(parts: torch.Tensor, dim: int) -> torch.Tensor:
    """(n, ..., size, ...) -> (..., n size, ...)."""
    dim %= parts.dim() - 1
    return parts.movedim(0, dim).flatten(dim, dim + 1)


def _after(work: dist.Work | None, result: Finish) -> Finish:
    def finish() -> torch.Tensor:
        assert work is not None  # None is for a rank outside the group
        work.wait()
        return result()

    return finish
