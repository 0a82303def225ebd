"""All-to-all attention: for the time of attention, cut heads instead of positions.

Heads do not look at each other, so a rank that has *all* positions of *some* heads needs nobody. One all-to-all takes a
tensor from the one cut to the other, and another takes the output back::

    (B, H, T_r, K), this rank's positions  -- all-to-all -->  (B, H/n, T, K), this rank's heads

The backward of an all-to-all is the all-to-all the other way. In between stands any attention kernel, unchanged. It
sends less than the ring where there are many ranks (a rank's share shrinks with n, the ring's does not), and cannot
have more ranks than key/value heads. Source: Jacobs et al., *DeepSpeed Ulysses* (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from course_lib.base.checked import checked
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.document_cut import DocumentCut
from course_lib.layouts.position_cut import PositionCut
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.context.checks import check_heads, check_parts
from course_lib.parallel.context.documents import document_mask
from course_lib.parallel.context.positions import join_positions, own_positions

__all__ = ["all_to_all_attention"]


@checked
def all_to_all_attention(
    me: Rank,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cut: PositionCut,
    *,
    is_causal: bool = True,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Attention of this rank's queries to everybody's keys: (B, H, T_r, K) -> same.

    q: (B, H, T_r, K), k and v: (B, G, T_r, K), where T_r is ``cut.size(group_rank)``. Each rank of ``group`` (None:
    all) calls with its own positions and the same ``cut``; sizes need not be equal, and any order does, since every
    rank has the same work: some heads over the whole sequence.

    Sent by each rank, forward and backward alike: (n - 1)/n of its part of q, k, v and the output, in four all-to-alls.
    A ``ValueError`` as in ``ring_attention``, and where H or G does not divide by the number of ranks.
    """
    members = Members.of(me, group)
    check_parts(members, cut, q, k, v)
    check_heads(members, q.size(1), k.size(1))
    if members.count > 1:
        q, k, v = (_ToHeads.apply(members, cut, x) for x in (q, k, v))  # (B, H/n, T, K), (B, G/n, T, K) twice
    mask = document_mask(cut.lengths, is_causal=is_causal, device=q.device) if isinstance(cut, DocumentCut) else None
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=is_causal and mask is None, enable_gqa=q.size(1) != k.size(1)
    )
    return _ToPositions.apply(members, cut, out) if members.count > 1 else out


class _ToHeads(Function):
    """(B, H, T_r, K) -> (B, H/n, T, K), positions in rising order; backward the other way."""

    @staticmethod
    def forward(ctx: Any, members: Members, cut: PositionCut, x: Tensor) -> Tensor:
        ctx.members, ctx.cut = members, cut
        parts = list(x.chunk(members.count, dim=1))  # for place j its heads, (B, H/n, T_r, K)
        shape = parts[0].shape
        received = _exchange(members, parts, [(*shape[:2], size, shape[3]) for size in cut.sizes])
        return join_positions(cut, received, dim=2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _ToPositions.apply(ctx.members, ctx.cut, grad)


class _ToPositions(Function):
    """(B, H/n, T, K) -> (B, H, T_r, K); backward the other way."""

    @staticmethod
    def forward(ctx: Any, members: Members, cut: PositionCut, x: Tensor) -> Tensor:
        ctx.members, ctx.cut = members, cut
        parts = [own_positions(cut, group_rank, x, dim=2) for group_rank in range(members.count)]  # (B, H/n, T_j, K)
        received = _exchange(members, parts, [parts[members.group_rank].shape] * members.count)
        return torch.cat(received, dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _ToHeads.apply(ctx.members, ctx.cut, grad)


def _exchange(members: Members, parts: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
    """Give part j to group rank j; returned is what came from each rank, of these shapes. One all-to-all."""
    give = torch.cat([part.flatten() for part in parts])
    sizes = [prod(shape) for shape in shapes]  # numbers from each place
    take = give.new_empty(sum(sizes))
    dist.all_to_all_single(take, give, sizes, [part.numel() for part in parts], group=members.group)
    return [part.view(tuple(shape)) for part, shape in zip(take.split(sizes), shapes, strict=True)]
