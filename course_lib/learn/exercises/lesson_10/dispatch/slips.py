"""10.dispatch: what goes wrong on a rank between the messages, each slip once: for ranks, and for the judge's account.

Between its messages an answer does four things: it puts its choices in an order, makes rows of them, has its experts
serve the rows that come, and combines what comes back. A ``Slip`` does one of them otherwise. ``on_ranks`` makes a
wrong answer of it; ``given_by`` works out what it gives, without ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_10.dispatch.cases import made_by, num_experts_of, own_experts, tokens_of

__all__ = ["Run", "Slip", "given_by", "put_back", "rows_of", "served", "sorted_by_expert", "weighed"]

Run = Callable[[int, Tensor], Tensor]


def sorted_by_expert(chosen: Tensor) -> Tensor:
    """(N, k) -> (S,): choices, expert after expert; choice c of token t is t k + c."""
    return chosen.flatten().argsort(stable=True)


def rows_of(tokens: Tensor, weights: Tensor, order: Tensor) -> Tensor:
    """(S, D)."""
    return tokens[order // weights.size(1)]


def served(rows: Tensor, come: Tensor, own: Sequence[int], run: Run) -> Tensor:
    """Rows that came rank by rank, ``come`` (n, own experts) of them -> outputs (R, D) in the same order."""
    experts = torch.tensor(own, device=rows.device).repeat(len(come)).repeat_interleave(come.flatten())
    made = torch.empty_like(rows)
    for expert in own:
        made[experts == expert] = run(expert, rows[experts == expert])
    return made


def put_back(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    """(S, D) -> (N, k, D), each output in the place of its choice."""
    places = back.new_zeros(weights.numel(), back.size(1))
    places[order] = back
    return places.view(*weights.shape, back.size(1))


def weighed(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    """(S, D) -> (N, D)."""
    return (put_back(back, order, weights) * weights.unsqueeze(-1)).sum(1)


@dataclass(frozen=True)
class Slip:
    """The four things, each right unless it is given otherwise."""

    order: Callable[[Tensor], Tensor] = sorted_by_expert
    rows: Callable[[Tensor, Tensor, Tensor], Tensor] = rows_of
    serve: Callable[[Tensor, Tensor, Sequence[int], Run], Tensor] = served
    combine: Callable[[Tensor, Tensor, Tensor], Tensor] = weighed


@lru_cache(maxsize=512)
def given_by(slip: Slip, kind: str, num_ranks: int) -> tuple[Tensor, ...]:
    """What each rank returns with this slip: the messages are slices here."""
    given = [tokens_of(kind, rank, num_ranks) for rank in range(num_ranks)]
    orders = [slip.order(one.chosen) for one in given]
    num_experts = num_experts_of(kind, num_ranks)
    counts = [
        torch.bincount(one.chosen.flatten()[order], minlength=num_experts).view(num_ranks, -1)
        for one, order in zip(given, orders, strict=True)
    ]
    rows = [slip.rows(one.rows, one.weights, order) for one, order in zip(given, orders, strict=True)]
    parts = [row.split(count.sum(1).tolist()) for row, count in zip(rows, counts, strict=True)]
    back: list[list[Any]] = [[] for _ in given]
    for rank in range(num_ranks):
        come = torch.stack([count[rank] for count in counts])
        rows_here = torch.cat([part[rank] for part in parts])
        made = slip.serve(rows_here, come, own_experts(kind, rank, num_ranks), made_by)
        for one, piece in zip(back, made.split(come.sum(1).tolist()), strict=True):
            one.append(piece)
    return tuple(
        slip.combine(torch.cat(came), order, one.weights) for came, order, one in zip(back, orders, given, strict=True)
    )
