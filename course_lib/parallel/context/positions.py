"""From a whole sequence to a rank's own positions, and back from everybody's parts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.base.checked import Int64, checked
from course_lib.layouts.position_cut import PositionCut

__all__ = ["join_positions", "own_positions"]


@checked
def own_positions(cut: PositionCut, group_rank: int, full: Tensor, *, dim: Int64 = 1) -> Tensor:
    """(..., T, ...) -> the positions of a group rank (..., T_r, ...), along ``dim``: a copy, so that the whole can go.

    ``ValueError`` where ``dim`` does not have the cut's number of positions, and for a place that is not there.
    """
    _check_length(cut, full, dim)
    runs = cut.runs(group_rank) or (range(0),)
    return torch.cat([full.narrow(dim, run.start, len(run)) for run in runs], dim)


@checked
def join_positions(cut: PositionCut, parts: Sequence[Tensor], *, dim: Int64 = 1) -> Tensor:
    """The parts of all group ranks (..., T_r, ...) -> the whole sequence (..., T, ...), positions in rising order.

    ``ValueError`` where the parts do not have the cut's numbers of positions.
    """
    sizes = tuple(part.size(dim) for part in parts)
    if sizes != cut.sizes:
        raise ValueError(f"the parts have {list(sizes)} positions; the places of {cut} have {list(cut.sizes)}")
    pieces = [
        (run.start, piece)
        for group_rank, part in enumerate(parts)
        for run, piece in zip(
            cut.runs(group_rank), part.split([len(run) for run in cut.runs(group_rank)], dim), strict=False
        )
    ]
    return torch.cat([piece for _, piece in sorted(pieces, key=lambda pair: pair[0])], dim)


def _check_length(cut: PositionCut, full: Tensor, dim: int) -> None:
    if not -full.dim() <= dim < full.dim() or full.size(dim) != cut.num_tokens:
        raise ValueError(
            f"a tensor of shape {tuple(full.shape)} does not have {cut.num_tokens} positions along dim {dim}, as the "
            f"cut has: {cut}. Give the whole sequence, or make a cut for its length."
        )
