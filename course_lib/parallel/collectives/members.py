"""Who takes part in a collective, and the checks that all collectives share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.row_partition import split_sizes

__all__ = ["Add", "Members", "adder", "bytes_of", "checked_out", "in_one_piece", "rows", "split_sizes"]

_CHUNK_BYTES = 1 << 24  # of a tensor on a device: so much of it is on the host at a time

Add = Callable[..., torch.Tensor]  # add(a, b, out=c)

_OPERATIONS: dict[str, Add] = {
    "sum": torch.add,
    "product": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
}


@dataclass(frozen=True)
class Members:
    """The ranks that take part, seen by one of them: ``group_rank`` is its position among ``ranks``."""

    group_rank: int
    ranks: tuple[int, ...]  # their numbers in the whole job
    group: dist.ProcessGroup | None  # None: everybody

    @classmethod
    def of(cls, me: Rank, group: dist.ProcessGroup | None) -> Members:
        """All ranks, or those of ``group``. Raises ValueError where this rank is none of them."""
        if group is None:
            return cls(me.rank, tuple(range(me.world_size)), None)
        ranks = () if isinstance(group, int) else tuple(dist.get_process_group_ranks(group))
        if me.rank not in ranks:
            names = f"ranks {', '.join(map(str, ranks))}" if ranks else "other ranks"
            raise ValueError(f"rank {me.rank} is not in this group, which has {names}; only its members may call")
        return cls(ranks.index(me.rank), ranks, group)

    def __deepcopy__(self, memo: object) -> Members:
        return self  # the copy of a model talks to the same ranks

    @property
    def count(self) -> int:
        return len(self.ranks)

    def at(self, group_rank: int) -> int:
        """The rank at ``group_rank``, counted around in a circle: after the last comes the first."""
        return self.ranks[group_rank % self.count]

    def group_rank_of(self, root: int) -> int:
        """Where ``root``, a rank of the whole job, stands. Raises ValueError where it takes no part."""
        if root not in self.ranks:
            names = ", ".join(map(str, self.ranks))
            nearest = min(self.ranks, key=lambda rank: abs(rank - root))
            raise ValueError(
                f"root={root} is not in this group; the root is one of the ranks {names}. The nearest is {nearest}."
            )
        return self.ranks.index(root)


def adder(op: str, dtype: torch.dtype) -> Add:
    """How two tensors of ``dtype`` become one: "sum", "product", "max" or "min"."""
    if op not in _OPERATIONS:
        raise ValueError(f"op={op!r} is not known; the operations are {', '.join(_OPERATIONS)}. Use 'sum'.")
    if dtype.is_complex and op in ("max", "min"):
        raise ValueError(f"op={op!r} does not work for {dtype}: complex numbers have no order. Use 'sum' or 'product'.")
    return _OPERATIONS[op]


def in_one_piece(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its history, or a copy, whose memory holds its numbers one after the other and as they are.

    A back end sends memory. Of a tensor with gaps gloo sends what lies between its numbers, and of one that PyTorch is
    still to conjugate or negate (``x.conj()``) what lies there now.
    """
    return tensor.detach().contiguous().resolve_conj().resolve_neg()


def bytes_of(tensor: torch.Tensor) -> Iterator[memoryview]:
    """All bytes of a tensor as ``in_one_piece`` has them, in order and on the host, 16 MiB at a time.

    No tensor is made that would count as held memory.
    """
    for chunk in in_one_piece(tensor).flatten().view(torch.uint8).split(_CHUNK_BYTES):
        yield chunk.cpu().numpy().data


def rows(tensor: torch.Tensor, sizes: Sequence[int] | None, num_parts: int) -> list[int]:
    """``sizes`` checked: one for each part, together the rows of ``tensor``; the most even ones by default."""
    if tensor.dim() == 0:
        raise ValueError("a tensor without dims has no rows to deal out; give tensor.reshape(1)")
    if sizes is None:
        return split_sizes(len(tensor), num_parts)
    if len(sizes) != num_parts or sum(sizes) != len(tensor) or min(sizes) < 0:
        even = split_sizes(len(tensor), num_parts)
        raise ValueError(
            f"sizes={list(sizes)} do not fit: {num_parts} sizes of at least 0 are needed, which add up to the "
            f"{len(tensor)} rows. The most even are {even}."
        )
    return list(sizes)


def checked_out(
    out: torch.Tensor | None, shape: Sequence[int], like: torch.Tensor, *, name: str = "out"
) -> torch.Tensor:
    """``out`` if it can take a result of this shape, or new memory for it, of the dtype and device of ``like``."""
    if out is None:
        return torch.empty(tuple(shape), dtype=like.dtype, device=like.device)
    wanted = (tuple(shape), like.dtype, like.device)
    if (tuple(out.shape), out.dtype, out.device) != wanted:
        given = f"{tuple(out.shape)}, {out.dtype} on {out.device}"
        raise ValueError(f"{name} is {given}; the result is {wanted[0]}, {wanted[1]} on {wanted[2]}")
    if not out.is_contiguous():
        raise ValueError(f"{name} is not contiguous; a result is written in one piece. Use out.contiguous().")
    if out.is_conj() or out.is_neg():
        raise ValueError(
            f"{name} is a view that PyTorch conjugates or negates only when it is read; a result is written as it is. "
            "Use out.resolve_conj().resolve_neg()."
        )
    return out.detach()
