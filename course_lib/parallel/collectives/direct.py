"""Scatter, gather and all-to-all: everybody sends each part straight to the rank that it is for.

These three only move data: each part crosses the wire once and goes to one rank, so no detour could save a byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members, checked_out, in_one_piece, rows

__all__ = ["all_to_all", "gather", "scatter"]


def scatter(
    me: Rank,
    tensor: torch.Tensor | None,
    *,
    out: torch.Tensor,
    root: int = 0,
    sizes: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """The root deals out the rows of ``tensor``, some to each rank, in the order of the ranks.

    tensor: (N, ...) at the root, None elsewhere. out: (rows of this rank, ...), filled and returned; a rank that is
    not the root cannot know its shape otherwise. ``sizes``: rows for each rank, by default as even as can be.
    Sent: n - 1 messages by the root, together (n - 1)/n of the tensor when even.
    Backward: ``gather`` of the gradients, to the root.
    """
    members = Members.of(me, group)
    root_group_rank = members.group_rank_of(root)
    out = checked_out(out, out.shape, out)
    if members.group_rank != root_group_rank:
        exchange([recv(out, root)] if out.numel() else [], group=group)
        return out
    if tensor is None:
        raise ValueError(f"rank {me.rank} is the root and has to give the tensor; it gave None")
    tensor = in_one_piece(tensor)
    parts = tensor.split(rows(tensor, sizes, members.count))
    others = [(rank, part) for rank, part in zip(members.ranks, parts, strict=True) if rank != me.rank]
    exchange([send(part, rank) for rank, part in others if part.numel()], group=group)
    return checked_out(out, parts[root_group_rank].shape, tensor).copy_(parts[root_group_rank])


def gather(
    me: Rank,
    tensor: torch.Tensor,
    *,
    root: int = 0,
    sizes: Sequence[int] | None = None,
    out: torch.Tensor | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor | None:
    """The root gets the rows of all ranks, below each other in the order of the ranks; the others get None.

    tensor: (rows of this rank, ...). ``sizes``: rows of each rank, needed at the root where they differ.
    Returns (sum of the rows, ...) at the root. Sent: one message by every other rank, its tensor.
    Backward: ``scatter`` of the gradient, from the root.
    """
    members = Members.of(me, group)
    root_group_rank = members.group_rank_of(root)
    tensor = in_one_piece(tensor)
    if members.group_rank != root_group_rank:
        exchange([send(tensor, root)] if tensor.numel() else [], group=group)
        return None
    result, parts = room_for_all(members, tensor, sizes, out)
    others = [(rank, part) for rank, part in zip(members.ranks, parts, strict=True) if rank != me.rank]
    exchange([recv(part, rank) for rank, part in others if part.numel()], group=group)
    parts[root_group_rank].copy_(tensor)
    return result


def all_to_all(
    me: Rank,
    tensor: torch.Tensor,
    *,
    send_sizes: Sequence[int] | None = None,
    recv_sizes: Sequence[int] | None = None,
    out: torch.Tensor | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Every rank deals out its rows to all ranks: the part for rank j of rank i comes to stand at place i on rank j.

    tensor: (sum of send_sizes, ...). Returns (sum of recv_sizes, ...). Without sizes the rows are dealt out
    evenly, which needs a multiple of the number of ranks; otherwise both are needed, and rank i's ``send_sizes[j]``
    is rank j's ``recv_sizes[i]``. ``out`` lies elsewhere than ``tensor``, else ``ValueError``. Sent: n - 1 messages by
    each rank, together (n - 1)/n of the tensor when even.
    Backward: ``all_to_all`` of the gradient, with the two sizes changing places.
    """
    members = Members.of(me, group)
    tensor = in_one_piece(tensor)
    if (send_sizes is None) != (recv_sizes is None):
        raise ValueError("all_to_all got only one of send_sizes and recv_sizes; give both, or neither")
    if send_sizes is None and tensor.dim() and len(tensor) % members.count:
        nearest = max(1, round(len(tensor) / members.count)) * members.count
        raise ValueError(
            f"{members.count} ranks do not divide {len(tensor)} rows evenly; give {nearest} rows, or send_sizes and "
            "recv_sizes"
        )
    mine = tensor.split(rows(tensor, send_sizes, members.count))
    counts = [len(part) for part in mine] if recv_sizes is None else list(recv_sizes)
    out = checked_out(out, (sum(counts), *tensor.shape[1:]), tensor)
    if max(out.data_ptr(), tensor.data_ptr()) < min(x.data_ptr() + x.nbytes for x in (out, tensor)):
        raise ValueError(
            "out lies in the memory of the tensor, so arriving rows would overwrite rows that are not yet sent. Leave "
            "out= away, or give out=torch.empty_like(tensor)"
        )
    theirs = out.split(counts)
    others = [group_rank for group_rank in range(members.count) if group_rank != members.group_rank]
    messages = [send(mine[group_rank], members.at(group_rank)) for group_rank in others if mine[group_rank].numel()]
    messages += [
        recv(theirs[group_rank], members.at(group_rank)) for group_rank in others if theirs[group_rank].numel()
    ]
    exchange(messages, group=group)
    theirs[members.group_rank].copy_(mine[members.group_rank])
    return out


def room_for_all(
    members: Members, tensor: torch.Tensor, sizes: Sequence[int] | None, out: torch.Tensor | None
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Memory for the rows of all ranks, and the view of it that belongs to each."""
    if tensor.dim() == 0:
        raise ValueError("a tensor without dims has no rows to put below others; give tensor.reshape(1)")
    counts = [len(tensor)] * members.count if sizes is None else list(sizes)
    if len(counts) != members.count or counts[members.group_rank] != len(tensor):
        fitting = [len(tensor) if group_rank == members.group_rank else "?" for group_rank in range(members.count)]
        raise ValueError(
            f"sizes={counts} do not fit: one is needed for each of {members.count} ranks, and this rank, at place "
            f"{members.group_rank}, has {len(tensor)} rows: {fitting}"
        )
    result = checked_out(out, (sum(counts), *tensor.shape[1:]), tensor)
    return result, result.split(counts)
