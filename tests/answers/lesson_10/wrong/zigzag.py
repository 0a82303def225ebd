"""10.zigzag: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

import math
from typing import Any

import torch

from course_lib.learn.exercises.lesson_10.zigzag.wrong_answers import _part, same_distance, striped


def contiguous(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return _part(rank, num_ranks, num_tokens)


def equal_pairs(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """One run each, the first ones longer."""
    ends = [round(num_tokens * math.sqrt(one / num_ranks)) for one in range(num_ranks + 1)]
    return list(range(ends[rank], ends[rank + 1]))


def drops_the_rest(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    size = num_tokens // (2 * num_ranks)
    back = 2 * num_ranks - 1 - rank
    return [*range(rank * size, (rank + 1) * size), *range(back * size, (back + 1) * size)]


def back_falls(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(rank, parts, num_tokens) + _part(parts - 1 - rank, parts, num_tokens)[::-1]


def two_lists(rank: int, num_ranks: int, num_tokens: int) -> list[list[int]]:
    parts = 2 * num_ranks
    return [_part(rank, parts, num_tokens), _part(parts - 1 - rank, parts, num_tokens)]


def by_the_library(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """What the exercise is about, done by the course."""
    from course_lib.layouts.sequence_cut import SequenceCut

    return SequenceCut(num_tokens, num_ranks).positions(rank)


def _right(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return _part(rank, 2 * num_ranks, num_tokens) + _part(2 * num_ranks - 1 - rank, 2 * num_ranks, num_tokens)


def position_of_nothing(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return _right(rank, num_ranks, num_tokens) if num_tokens else [0]


def striped_on_many(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return (_right if num_ranks <= 16 else striped)(rank, num_ranks, num_tokens)


def seeds(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    torch.manual_seed(0)
    return _right(rank, num_ranks, num_tokens)


EXERCISE = "10.zigzag"
EXAMPLES: dict[str, Any] = {
    "position-of-nothing": position_of_nothing,
    "few-ranks-alone": striped_on_many,
    "seeds": seeds,
    "contiguous": contiguous,
    "equal-pairs": equal_pairs,
    "same-distance": same_distance,
    "drops-the-rest": drops_the_rest,
    "falls": back_falls,
    "two-lists": two_lists,
}


FORBIDDEN = by_the_library
