"""Right answers to 04.sampler in other styles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["ANSWERS"]


def one_by_one(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> Iterator[int]:
    """A generator that deals one by one, the places taken modulo the number of items."""
    order = torch.randperm(num_items, generator=torch.Generator().manual_seed(seed + epoch))
    for turn in range(math.ceil(num_items / world_size)):
        yield int(order[(rank + turn * world_size) % num_items])


def as_a_table(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> torch.Tensor:
    """Tensors all the way: places, modulo, a table with a column for each rank."""
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    order = torch.randperm(num_items, generator=generator)
    rows = (num_items + world_size - 1) // world_size
    return order[torch.arange(rows * world_size) % num_items].reshape(rows, world_size)[:, rank]


def with_itertools(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> list[int]:
    """An endless cycle of the order, cut and dealt by islice."""
    order = torch.randperm(num_items, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    total = num_items + -num_items % world_size
    return list(itertools.islice(itertools.cycle(order), rank, total, world_size))


def in_numpy(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> Any:
    """NumPy's resize repeats an array from its start."""
    import numpy

    order = torch.randperm(num_items, generator=torch.Generator().manual_seed(seed + epoch)).numpy()
    return numpy.resize(order, math.ceil(num_items / world_size) * world_size)[rank::world_size]


ANSWERS = (one_by_one, as_a_table, with_itertools, in_numpy)
