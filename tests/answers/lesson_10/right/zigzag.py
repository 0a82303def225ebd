"""Right answers to 10.zigzag in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import torch

__all__ = ["ANSWERS", "SAME"]


def by_boundaries(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """Whole-number boundaries: where a remainder goes is another matter."""
    ends = [part * num_tokens // (2 * num_ranks) for part in range(2 * num_ranks + 1)]
    back = 2 * num_ranks - 1 - rank
    return [*range(ends[rank], ends[rank + 1]), *range(ends[back], ends[back + 1])]


def by_tensor_split(rank: int, num_ranks: int, num_tokens: int) -> Any:
    """A tensor of whole numbers."""
    parts = torch.arange(num_tokens).tensor_split(2 * num_ranks)
    return torch.cat([parts[rank], parts[-1 - rank]])


def middle_first(rank: int, num_ranks: int, num_tokens: int) -> tuple[int, ...]:
    """Rank 0 has the middle: the same parts, given to other ranks."""
    place = num_ranks - 1 - rank
    base, extra = divmod(num_tokens, 2 * num_ranks)
    sizes = [base + (part < extra) for part in range(2 * num_ranks)]
    found: tuple[int, ...] = ()
    for part in (place, 2 * num_ranks - 1 - place):
        start = sum(sizes[:part])
        found += tuple(range(start, start + sizes[part]))
    return found


def as_generator(rank: int, num_ranks: int, num_tokens: int) -> Iterator[int]:
    """The longer parts stand at the end."""
    short_ones = 2 * num_ranks - num_tokens % (2 * num_ranks)
    base = num_tokens // (2 * num_ranks)
    for part in (rank, 2 * num_ranks - 1 - rank):
        start = part * base + max(0, part - short_ones)
        yield from range(start, start + base + (part >= short_ones))


def by_whom(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """For every position its part, and from that its owner."""
    found = []
    for position in range(num_tokens):
        part = position * 2 * num_ranks // num_tokens
        if min(part, 2 * num_ranks - 1 - part) == rank:
            found.append(position)
    return found


def by_an_iterator(rank: int, num_ranks: int, num_tokens: int) -> Any:
    """Two ranges behind each other, as they come."""
    base, extra = divmod(num_tokens, 2 * num_ranks)
    everything = iter(range(num_tokens))
    parts = [list(islice(everything, base + (part < extra))) for part in range(2 * num_ranks)]
    return chain(parts[rank], parts[~rank])


ANSWERS = (by_boundaries, by_tensor_split, middle_first, as_generator, by_whom, by_an_iterator)
SAME: dict[str, str] = {
    "1: `base, extra = divmod(num_tokens, 2 * num_ranks)` after `positions = []`": (
        "Neither line needs what the other makes."
    ),
    "4: `min(part, extra)` -> `min(extra, part)`": "The smaller of two numbers is the same in either order.",
}
