"""10.zigzag: no position at all, many ranks, and everybody's random numbers."""

from __future__ import annotations

from functools import lru_cache

import torch
from answer_table import Row


def right_positions(rank, num_ranks, num_tokens):
    ends = [part * num_tokens // (2 * num_ranks) for part in range(2 * num_ranks + 1)]
    back = 2 * num_ranks - 1 - rank
    return [*range(ends[rank], ends[rank + 1]), *range(ends[back], ends[back + 1])]


@lru_cache
def kept_for_each_rank(rank, num_ranks, num_tokens):
    return right_positions(rank, num_ranks, num_tokens)


def half_a_sequence_apart(rank, num_ranks, num_tokens):
    ends = [part * num_tokens // (2 * num_ranks) for part in range(2 * num_ranks + 1)]
    return [p for part in (rank, num_ranks + rank) for p in range(ends[part], ends[part + 1])]


def refuses_nothing(rank, num_ranks, num_tokens):
    if num_tokens < 1:
        raise ValueError(f"num_tokens is {num_tokens}, and has to be at least 1")
    return right_positions(rank, num_ranks, num_tokens)


def zero_of_nothing(rank, num_ranks, num_tokens):
    return right_positions(rank, num_ranks, num_tokens) if num_tokens else [0]


def striped_above_16(rank, num_ranks, num_tokens):
    if num_ranks > 16:
        return list(range(rank, num_tokens, num_ranks))
    return right_positions(rank, num_ranks, num_tokens)


def with_a_seed(rank, num_ranks, num_tokens):
    torch.manual_seed(0)
    return right_positions(rank, num_ranks, num_tokens)


ROWS = [
    Row(answer=right_positions, verdict="passed", why="the definition"),
    Row(answer=kept_for_each_rank, verdict="passed", why="the same arguments, the same positions"),
    Row(answer=refuses_nothing, verdict="passed", why="a sequence without positions may be refused"),
    Row(
        answer=half_a_sequence_apart,
        verdict="not yet",
        mistake="same-distance",
        why="parts r and n + r, whatever is done with a remainder",
    ),
    Row(
        answer=zero_of_nothing,
        verdict="not yet",
        mistake="position-of-nothing",
        why="there is no position 0",
        words=("there are none",),
        unsaid=("0 to -1",),
    ),
    Row(answer=striped_above_16, verdict="not yet", mistake="few-ranks-alone", why="two runs are the most, on any job"),
    Row(answer=with_a_seed, verdict="not yet", mistake="seeds", why="whoever draws next draws the same numbers"),
]
