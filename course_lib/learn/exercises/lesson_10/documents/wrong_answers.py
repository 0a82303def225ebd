"""Usual wrong answers to 10.documents, each of which runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

__all__ = [
    "contiguous",
    "each_document_in_one_run",
    "first_parts_longer",
    "from_zero_in_each_document",
    "rest_behind",
    "rest_dropped",
    "rest_in_order",
    "rest_to_the_last_rank",
    "same_distance",
    "single_positions",
    "whole_documents",
    "zigzag_over_all",
]

Lengths = Sequence[int]


def _documents(lengths: Lengths) -> Iterator[tuple[int, int]]:
    return zip(accumulate(lengths, initial=0), lengths, strict=False)


def _parts(start: int, length: int, num_parts: int) -> list[range]:
    """As even as can be, the first ones longer."""
    base, extra = divmod(length, num_parts)
    begins = [start + part * base + min(part, extra) for part in range(num_parts + 1)]
    return [range(begin, end) for begin, end in pairwise(begins)]


def _body(rank: int, num_ranks: int, lengths: Lengths, partner: Callable[[int], int] | None = None) -> list[int]:
    """Zigzag in each document, without the remainder at its front."""
    own: list[int] = []
    for start, length in _documents(lengths):
        size, over = divmod(length, 2 * num_ranks)
        for part in (rank, partner(rank) if partner else 2 * num_ranks - 1 - rank):
            own += range(start + over + part * size, start + over + (part + 1) * size)
    return own


def _rest(num_ranks: int, lengths: Lengths) -> list[tuple[int, int]]:
    """Each remainder's tokens: where they stand in their document, and in the sequence."""
    return [(i, start + i) for start, length in _documents(lengths) for i in range(length % (2 * num_ranks))]


def zigzag_over_all(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    parts = _parts(0, sum(lengths), 2 * num_ranks)
    return [*parts[rank], *parts[2 * num_ranks - 1 - rank]]


def contiguous(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    return list(_parts(0, sum(lengths), num_ranks)[rank])


def each_document_in_one_run(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    return [p for start, length in _documents(lengths) for p in _parts(start, length, num_ranks)[rank]]


def first_parts_longer(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    own = []
    for start, length in _documents(lengths):
        parts = _parts(start, length, 2 * num_ranks)
        own += [*parts[rank], *parts[2 * num_ranks - 1 - rank]]
    return own


def from_zero_in_each_document(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    return [p for length in lengths for p in first_parts_longer(rank, num_ranks, [length])]


def rest_dropped(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    return _body(rank, num_ranks, lengths)


def rest_to_the_last_rank(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    rest = [position for _, position in _rest(num_ranks, lengths)] if rank == num_ranks - 1 else []
    return sorted(_body(rank, num_ranks, lengths) + rest)


def rest_in_order(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    """One to each rank in turn, as they stand in the sequence."""
    rest = [position for _, position in _rest(num_ranks, lengths)]
    return sorted(_body(rank, num_ranks, lengths) + rest[rank::num_ranks])


def rest_behind(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    """Right, but not in rising order."""
    return _body(rank, num_ranks, lengths) + [p for _, p in sorted(_rest(num_ranks, lengths))[rank::num_ranks]]


def same_distance(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    rest = [p for _, p in sorted(_rest(num_ranks, lengths))[rank::num_ranks]]
    return sorted(_body(rank, num_ranks, lengths, lambda place: num_ranks + place) + rest)


def single_positions(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    """All positions by their pairs, one to each rank in turn."""
    by_pairs = sorted((i, start + i) for start, length in _documents(lengths) for i in range(length))
    return sorted(p for _, p in by_pairs[rank::num_ranks])


def whole_documents(rank: int, num_ranks: int, lengths: Lengths) -> list[int]:
    """The longest document first, each to the rank with the fewest pairs."""
    work, own = [0] * num_ranks, []
    for length, start in sorted(((length, start) for start, length in _documents(lengths)), reverse=True):
        place = work.index(min(work))
        work[place] += length * (length + 1) // 2
        if place == rank:
            own += range(start, start + length)
    return sorted(own)
