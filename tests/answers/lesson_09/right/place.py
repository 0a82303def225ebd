"""Right answers to 09.place in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import torch

__all__ = ["ALL", "SAME"]

Sizes = dict[str, int]


class ByStrides:
    """Steps along each axis, worked out once; groups as blocks of ranks."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.strides, step = {}, 1
        for axis in reversed(sizes):
            self.strides[axis] = step
            step *= sizes[axis]
        self.num_ranks = step

    def rank_of(self, place: Sizes) -> int:
        return sum(number * self.strides[axis] for axis, number in place.items())

    def groups_along(self, axis: str) -> list[range]:
        stride, size = self.strides[axis], self.sizes[axis]
        blocks = range(0, self.num_ranks, stride * size)
        return [
            range(first, first + stride * size, stride) for block in blocks for first in range(block, block + stride)
        ]


class ByAnArray:
    """NumPy's row-major order is the mesh's."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.ranks = np.arange(prod(sizes.values())).reshape(tuple(sizes.values()))

    def rank_of(self, place: Sizes) -> Any:
        return self.ranks[tuple(place[axis] for axis in self.sizes)]

    def groups_along(self, axis: str) -> Any:
        return np.moveaxis(self.ranks, list(self.sizes).index(axis), -1).reshape(-1, self.sizes[axis])


class ByATensor:
    """As ``init_device_mesh`` does it: swap the axis to the end, and reshape."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.names = sizes, list(sizes)
        self.mesh = torch.arange(prod(sizes.values())).view(*sizes.values())

    def rank_of(self, place: Sizes) -> int:
        return int(self.mesh[tuple(place[name] for name in self.names)].item())

    def groups_along(self, axis: str) -> Any:
        return self.mesh.swapdims(-1, self.names.index(axis)).reshape(-1, self.sizes[axis])


class ByAllPlaces:
    """Every place in order: ranks are where they stand in the list."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.places = [
            dict(zip(sizes, numbers, strict=True)) for numbers in itertools.product(*map(range, sizes.values()))
        ]

    def rank_of(self, place: Sizes) -> int:
        return self.places.index(place)

    def groups_along(self, axis: str) -> list[set[int]]:
        groups: dict[tuple[tuple[str, int], ...], set[int]] = {}
        for rank, place in enumerate(self.places):
            others = tuple((name, number) for name, number in place.items() if name != axis)
            groups.setdefault(others, set()).add(rank)
        return list(groups.values())


class ByGenerators(ByStrides):
    """Groups one after the other, from the last, and each as a generator."""

    def groups_along(self, axis: str) -> Iterator[Iterator[int]]:  # type: ignore[override]
        stride, size = self.strides[axis], self.sizes[axis]
        for rank in reversed(range(self.num_ranks)):
            if rank // stride % size == 0:
                yield (rank + stride * number for number in range(size))


ALL = (ByStrides, ByAnArray, ByATensor, ByAllPlaces, ByGenerators)
_ORDER = "Groups, and the ranks in them, may come in any order."
_LENGTHS = "There is a number for each of the other axes, so nothing is left over that `strict` could find."
SAME: dict[str, str] = {
    "10: `others = [name for name in self.sizes if name != axis]` after `groups = []`": "Neither line reads what the "
    "other makes.",
    "14: `groups.append([self.rank_of(place | {axis: number}) for number in range(self.sizes[axis])])` -> "
    "`groups.insert(0, [self.rank_of(place | {axis: number}) for number in range(self.sizes[axis])])`": _ORDER,
    "12: `range(self.sizes[name])` -> `reversed(range(self.sizes[name]))`": _ORDER,
    "14: `range(self.sizes[axis])` -> `reversed(range(self.sizes[axis]))`": _ORDER,
    "13: `zip(others, here, strict=True)` -> `zip(others, here)`": _LENGTHS,
    "13: `True` -> `False`": _LENGTHS,
}
