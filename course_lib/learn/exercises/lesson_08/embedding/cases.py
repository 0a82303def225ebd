"""What a split embedding is tried on: tokens of all ranks, tokens of one rank, and a table that does not learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.exercises.lesson_08.judging import READY_MADE
from course_lib.learn.exercises.lesson_08.step import NO_GRADIENT, StepSeen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import (
    NOTHING,
    all_reduce_of,
    leaf,
    made,
    reported,
    seen_report,
    weighted_sum,
)

__all__ = ["CASES", "LIBRARY", "TABLE", "sizes_of_case", "trial"]

LIBRARY = "course_lib.parallel.tensor.vocabulary.VocabParallelEmbedding"
TABLE = "table"


@dataclass(frozen=True)
class _Kind:
    label: str
    shape: tuple[int, int]  # sequences, tokens of each
    tokens_a_rank: int
    width: int
    only_last: bool = False  # tokens of the last rank alone
    frozen: bool = False

    def tokens(self, world_size: int) -> Tensor:
        """(B, T): the first and the last token of every rank, then others, some of them twice."""
        size, n = self.tokens_a_rank, world_size
        if self.only_last:
            seldom = [n * size - 1, (n - 1) * size]
        else:
            seldom = [token for rank in reversed(range(n)) for token in (rank * size, rank * size + size - 1)]
        count = self.shape[0] * self.shape[1]
        return torch.tensor((seldom + [abs(token - 1) for token in seldom[::2]] * count)[:count]).view(self.shape)

    def table(self, world_size: int, number: int) -> Tensor:
        """(V, D)."""
        return made(f"table {number}", self.tokens_a_rank * world_size, self.width)


_KINDS = (
    _Kind("tokens of every rank", (3, 5), 4, 3),
    _Kind("tokens of the last rank alone", (1, 4), 5, 2, only_last=True),
    _Kind("a table that is frozen", (2, 6), 3, 4, frozen=True),
)


def trial(answer: Callable[..., Any], me: Rank, kind: _Kind) -> dict[str, Any]:
    """The report of an answer on this rank."""
    seen = seen_again(partial(_step, answer, me, kind), me.world_size)
    return seen_report(seen, me.world_size, _num_summed(kind))


def _step(answer: Callable[..., Any], me: Rank, kind: _Kind, number: int) -> StepSeen:
    own = kind.table(me.world_size, number).chunk(me.world_size)[me.rank]
    leaves = {TABLE: leaf(own, me, is_frozen=kind.frozen)}
    handed = {"tokens": kind.tokens(me.world_size).to(me.device), **leaves}
    run = partial(answer, me, *handed.values())
    return take_step(me, run, leaves, handed, weighted_sum, (LIBRARY, *READY_MADE))


def _right(kind: _Kind) -> Callable[[int, int], dict[str, Any]]:
    """The report of a right embedding, from the whole table in one process."""

    def expected(rank: int, world_size: int) -> dict[str, Any]:
        table = kind.table(world_size, 1).requires_grad_(not kind.frozen)
        output = F.embedding(kind.tokens(world_size), table)
        if not kind.frozen:
            weighted_sum(output).backward()
        gradient = NO_GRADIENT if table.grad is None else table.grad.chunk(world_size)[rank]
        return reported(output.detach(), {TABLE: gradient}, all_reduce_of(_num_summed(kind)), NOTHING)

    return expected


def sizes_of_case(case: str) -> tuple[int, int]:
    """Bytes of one rank's table, and of one rank's vectors, in the case of an outcome."""
    kind = next(kind for kind in _KINDS if kind.label in case)
    return 8 * kind.tokens_a_rank * kind.width, 8 * _num_summed(kind)


def _num_summed(kind: _Kind) -> int:
    return kind.shape[0] * kind.shape[1] * kind.width


CASES = tuple(Case(kind.label, (kind,), _right(kind)) for kind in _KINDS)
