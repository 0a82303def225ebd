"""What each rank keeps of a tensor: some of its rows. Many tensors' rows are sent as one flat message.

A tensor is cut along dim 0, as ``fully_shard`` and ``DTensor`` (``Shard(0)``) do: every rank gets the same number of
rows, rounded up, and the last ranks fewer, or none. A collective wants equal parts; so what is missing is *padding*,
which travels and means nothing. Seven rows on four ranks: 2, 2, 2, 1, and a row of padding.

Shapes: n ranks; R rows; k numbers that a rank keeps of one tensor, padding included; K the sum of k over tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most
from course_lib.layouts.row_partition import rounded_up_range
from course_lib.parallel.collectives.dim_collectives import start_all_gather
from course_lib.parallel.collectives.members import Members

__all__ = ["Packing", "Rows", "all_gather_rows"]


@checked
@dataclass(frozen=True)
class Rows:
    """How ``num_parts`` ranks share the rows of a tensor of this shape. ``ValueError`` for one without rows."""

    shape: tuple[int, ...]
    num_parts: int

    def __post_init__(self) -> None:
        at_least(1, num_parts=self.num_parts)
        at_most(MOST_RANKS, num_parts=self.num_parts)
        if not self.shape:
            raise ValueError(
                "a parameter of shape () has no rows to deal out; the nearest that works is shape (1,): "
                "nn.Parameter(torch.ones(1))"
            )

    @property
    def per_part(self) -> int:
        """Rows of a rank, padding included."""
        return -(-self.shape[0] // self.num_parts)

    @property
    def row_numel(self) -> int:
        """Numbers in a row."""
        return int(torch.Size(self.shape[1:]).numel())

    @property
    def part_numel(self) -> int:
        """Numbers of a rank, padding included: k."""
        return self.per_part * self.row_numel

    def range_of(self, part: int) -> tuple[int, int]:
        """First row of a rank, and the one after its last; they are equal where it has none."""
        return rounded_up_range(self.shape[0], self.num_parts, part)

    def cut(self, full: Tensor, part: int) -> Tensor:
        """A rank's rows of ``full``: a view."""
        first, end = self.range_of(part)
        return full[first:end]


class Packing:
    """Where the rows of several tensors lie in one flat message: tensor after tensor, each with its padding.

    A rank's part is flat, (K,). The parts of all ranks together are (n, K), as all-gather leaves and reduce-scatter
    takes them.
    """

    def __init__(self, tensors: Sequence[Rows]) -> None:
        self.tensors = tuple(tensors)
        self.part_numel = sum(rows.part_numel for rows in tensors)  # K
        self.num_parts = tensors[0].num_parts
        self.has_padding = any(rows.shape[0] % self.num_parts for rows in tensors)

    def pack_part(self, shards: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
        """One rank's rows of all tensors -> (K,)."""
        make = torch.zeros if self.has_padding else torch.empty
        flat = make(self.part_numel, dtype=dtype, device=shards[0].device)
        for rows, shard, view in zip(self.tensors, shards, self._views(flat), strict=True):
            if rows.row_numel:
                view[: shard.numel()] = shard.flatten()
        return flat

    def unpack_part(self, flat: Tensor, part: int) -> list[Tensor]:
        """(K,) -> the rows of rank ``part`` of each tensor, without padding: views of ``flat``."""
        shards = []
        for rows, view in zip(self.tensors, self._views(flat), strict=True):
            first, end = rows.range_of(part)
            shards.append(view[: (end - first) * rows.row_numel].view(end - first, *rows.shape[1:]))
        return shards

    def pack_full(self, full_tensors: Sequence[Tensor | None], like: Tensor, dtype: torch.dtype) -> Tensor:
        """Full tensors -> (n, K); ``None`` stands for zeros. ``like`` tells the device."""
        any_zeros = self.has_padding or any(full is None for full in full_tensors)
        make = torch.zeros if any_zeros else torch.empty
        flat = make(self.num_parts, self.part_numel, dtype=dtype, device=like.device)
        for rows, full, view in zip(self.tensors, full_tensors, self._views(flat), strict=True):
            if full is not None:
                for there, here in _pairs(rows, view, full):
                    there.copy_(here)
        return flat

    def unpack_full(self, flat: Tensor, full_tensors: Sequence[Tensor]) -> None:
        """(n, K) -> into ``full_tensors``, which have their full shapes."""
        for rows, full, view in zip(self.tensors, full_tensors, self._views(flat), strict=True):
            for there, here in _pairs(rows, view, full):
                here.copy_(there)

    def _views(self, flat: Tensor) -> tuple[Tensor, ...]:
        """(..., K) -> each tensor's (..., k)."""
        return flat.split([rows.part_numel for rows in self.tensors], dim=-1)


def all_gather_rows(members: Members, packing: Packing, shards: Sequence[Tensor]) -> list[Tensor]:
    """The full tensors of which every rank gives its rows, in their dtype, in memory of their own."""
    part = packing.pack_part(shards, shards[0].dtype)
    flat = start_all_gather(members, part, 0)().view(members.count, -1)
    full_tensors = [torch.empty(rows.shape, dtype=flat.dtype, device=flat.device) for rows in packing.tensors]
    packing.unpack_full(flat, full_tensors)
    return full_tensors


def _pairs(rows: Rows, view: Tensor, full: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The numbers of ``full`` beside their places in (n, k): ranks with all their rows, and one with fewer.

    All are views, whatever the strides of ``full`` (``view`` would raise): what is written to a copy is lost.
    """
    if rows.part_numel == 0:
        return []
    num_full, num_rest = divmod(rows.shape[0], rows.per_part)
    end, a_row = num_full * rows.per_part, rows.shape[1:]
    pairs = []
    if num_full:
        shape = (num_full, rows.per_part, *a_row)
        pairs.append((view[:num_full].view(shape), full[:end].view(shape)))
    if num_rest:
        view = view[num_full, : num_rest * rows.row_numel]
        pairs.append((view.view(num_rest, *a_row), full[end:]))
    return pairs
