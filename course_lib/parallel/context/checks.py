"""Sentences for parts of a sequence that do not belong to its cut, said before any message is sent."""

from __future__ import annotations

from torch import Tensor

from course_lib.base.checks import nearest_divisor, nearest_multiple
from course_lib.layouts.position_cut import PositionCut
from course_lib.parallel.collectives.members import Members

__all__ = ["check_heads", "check_parts", "check_ranks"]


def check_ranks(members: Members, cut: PositionCut) -> None:
    """``ValueError`` where the cut is for another number of ranks than share the sequence."""
    if cut.num_ranks != members.count:
        raise ValueError(
            f"the cut is for {cut.num_ranks} ranks ({cut}), and {members.count} share the sequence: make it with "
            f"num_ranks={members.count}, or give the group that shares it"
        )


def check_parts(members: Members, cut: PositionCut, q: Tensor, k: Tensor, v: Tensor) -> None:
    """``ValueError`` where q (B, H, T_r, K), k and v (B, G, T_r, K) are not this rank's parts of one sequence."""
    check_ranks(members, cut)
    shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
    if any(x.dim() != 4 for x in (q, k, v)):
        raise ValueError(
            f"q, k and v have shapes {shapes}; each has four dims: batch, heads, positions, numbers of a head"
        )
    if k.shape != v.shape or q.size(0) != k.size(0) or q.shape[2:] != k.shape[2:]:
        raise ValueError(f"q, k and v have shapes {shapes}; they may differ only in the number of heads of q")
    if not k.size(1) or not q.size(1) or q.size(1) % k.size(1):
        nearest = nearest_multiple(q.size(1), max(1, k.size(1)))
        raise ValueError(
            f"{q.size(1)} query heads do not share {k.size(1)} key/value heads evenly; the nearest number of query "
            f"heads that does is {nearest}"
        )
    if q.size(2) != cut.size(members.group_rank):
        raise ValueError(
            f"this rank, at place {members.group_rank}, got {q.size(2)} positions; its part of {cut} has "
            f"{cut.size(members.group_rank)}. Take them with own_positions."
        )
    if not (q.dtype == k.dtype == v.dtype and q.is_floating_point()):
        raise ValueError(
            f"q, k and v have the dtypes {q.dtype}, {k.dtype} and {v.dtype}; they need one floating-point dtype. Use "
            "q.to(k.dtype)."
        )


def check_heads(members: Members, num_heads: int, num_kv_heads: int) -> None:
    """``ValueError`` where heads do not divide among the ranks: all-to-all attention computes a head on one rank."""
    n = members.count
    for what, heads in (("query", num_heads), ("key/value", num_kv_heads)):
        if heads % n:
            raise ValueError(
                f"{heads} {what} heads do not divide among {n} ranks: all-to-all attention computes a head on one "
                f"rank. Take {nearest_divisor(min(n, heads), of=heads)} ranks, a model with "
                f"{nearest_multiple(heads, n)} {what} heads, or ring attention, which leaves heads whole."
            )
