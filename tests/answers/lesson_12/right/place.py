"""Right answers to 12.place in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

import bisect
import itertools
from typing import Any

import numpy as np
import torch

__all__ = ["ALL", "SAME"]


class ByABisection:
    """The first ranks of all nodes, worked out once."""

    def __init__(self, sizes: list[int]) -> None:
        self.firsts = [0, *itertools.accumulate(sizes)][:-1]

    def place_of(self, rank: int) -> tuple[int, int]:
        node = bisect.bisect_right(self.firsts, rank) - 1
        return node, rank - self.firsts[node]

    def rank_of(self, node: int, local_rank: int) -> int:
        return self.firsts[node] + local_rank


class ByAList:
    """All places in order: ranks are where they stand in the list."""

    def __init__(self, sizes: list[int]) -> None:
        self.places = [[node, local] for node, size in enumerate(sizes) for local in range(size)]

    def place_of(self, rank: int) -> list[int]:
        return self.places[rank]

    def rank_of(self, node: int, local_rank: int) -> int:
        return self.places.index([node, local_rank])


class ByAnArray:
    """NumPy's whole numbers, and a search among sums."""

    def __init__(self, sizes: list[int]) -> None:
        self.ends = np.cumsum(sizes)

    def place_of(self, rank: int) -> Any:
        node = np.searchsorted(self.ends, rank, side="right")
        return np.array([node, rank - (self.ends[node - 1] if node else 0)])

    def rank_of(self, node: int, local_rank: int) -> Any:
        return self.ends[node - 1] + local_rank if node else local_rank


class ByATensor:
    """A row of node numbers, one for each rank."""

    def __init__(self, sizes: list[int]) -> None:
        self.nodes = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))

    def place_of(self, rank: int) -> Any:
        node = self.nodes[rank]
        return node, (self.nodes[:rank] == node).sum()

    def rank_of(self, node: int, local_rank: int) -> Any:
        return (self.nodes < node).sum() + local_rank


class ByCountingDown:
    """From the last node to the first."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = tuple(sizes)

    def place_of(self, rank: int) -> tuple[int, int]:
        left = sum(self.sizes)
        for node in reversed(range(len(self.sizes))):
            left -= self.sizes[node]
            if rank >= left:
                return node, rank - left
        raise IndexError(rank)

    def rank_of(self, node: int, local_rank: int) -> int:
        for size in self.sizes[:node]:
            local_rank += size
        return local_rank


ALL = (ByABisection, ByAList, ByAnArray, ByATensor, ByCountingDown)
_NUMBERS = "Whole numbers are not changed in place: both lines give the name another one."
SAME: dict[str, str] = {
    "3: `rank -= self.sizes[node]` -> a new name for a new value": _NUMBERS,
    "4: `node += 1` -> a new name for a new value": _NUMBERS,
}
