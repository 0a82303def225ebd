"""Tensors to be split among ranks, a rank's own part of one, and what differs from what was wanted."""

from __future__ import annotations

import torch

from course_lib.cluster import Rank
from course_lib.parallel.collectives import split_sizes


def drawn(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mine(me: Rank, whole: torch.Tensor, dim: int) -> torch.Tensor:
    return whole.split(split_sizes(whole.size(dim), me.world_size), dim)[me.rank]


def differ(*pairs: tuple[torch.Tensor, torch.Tensor]) -> list[int]:
    """The numbers of the pairs that are not the same to 1e-10."""
    return [
        i
        for i, (got, wanted) in enumerate(pairs)
        if got.shape != wanted.shape or not torch.allclose(got, wanted, rtol=0, atol=1e-10)
    ]
