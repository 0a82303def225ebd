"""Usual wrong answers to 10.zigzag; ``zigzag_mistakes.py`` has what each mixes up."""

from __future__ import annotations

import torch


def _part(number: int, num_parts: int, num_tokens: int) -> list[int]:
    base, extra = divmod(num_tokens, num_parts)
    start = number * base + min(number, extra)
    return list(range(start, start + base + (number < extra)))


def striped(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return list(range(rank, num_tokens, num_ranks))


def snake(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """0 1 2 3 3 2 1 0, position by position."""
    lap = 2 * num_ranks
    return [position for position in range(num_tokens) if position % lap in (rank, lap - 1 - rank)]


def same_distance(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(rank, parts, num_tokens) + _part(num_ranks + rank, parts, num_tokens)


def from_two_ends_off_by_one(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(rank, parts, num_tokens) + _part(parts - rank, parts, num_tokens)


def front_only(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return _part(rank, 2 * num_ranks, num_tokens)


def by_chunk(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """As many parts as ``chunk`` makes, which may be fewer than asked for."""
    parts = torch.arange(num_tokens).chunk(2 * num_ranks)
    return [*parts[rank].tolist(), *parts[2 * num_ranks - 1 - rank].tolist()]


def rest_to_the_last(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    size, back = num_tokens // (2 * num_ranks), 2 * num_ranks - 1 - rank
    end = num_tokens if rank == 0 else (back + 1) * size
    return [*range(rank * size, (rank + 1) * size), *range(back * size, end)]


def rounds_up(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    size, back = -(-num_tokens // (2 * num_ranks)), 2 * num_ranks - 1 - rank
    found = [*range(rank * size, (rank + 1) * size), *range(back * size, (back + 1) * size)]
    return [position for position in found if position < num_tokens]


def over_the_end(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    size, back = -(-num_tokens // (2 * num_ranks)), 2 * num_ranks - 1 - rank
    return [*range(rank * size, (rank + 1) * size), *range(back * size, (back + 1) * size)]


def counted_from_the_end(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """The back part mirrors the front part: where parts differ, the middle overlaps or is left out."""
    front = _part(rank, 2 * num_ranks, num_tokens)
    return front + [num_tokens - 1 - position for position in reversed(front)]


def extra_by_rank(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """Starts without the longer parts before them."""
    base, extra = divmod(num_tokens, 2 * num_ranks)
    parts = (rank, 2 * num_ranks - 1 - rank)
    return [p for part in parts for p in range(part * base, part * base + base + (part < extra))]


def back_first(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(parts - 1 - rank, parts, num_tokens) + _part(rank, parts, num_tokens)


def part_numbers(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return [rank, 2 * num_ranks - 1 - rank]


def n_parts(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """The ends of as many parts as ranks: everybody's twice."""
    return sorted({*_part(rank, num_ranks, num_tokens), *_part(num_ranks - 1 - rank, num_ranks, num_tokens)})


def same_for_all(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(0, parts, num_tokens) + _part(parts - 1, parts, num_tokens)
