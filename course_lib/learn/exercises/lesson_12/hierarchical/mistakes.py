"""12.hierarchical: what wrong answers show, by values, by what was sent, and by which calls were made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_12.hierarchical.cases import (
    WHOLE,
    HierarchicalReport,
    Said,
    gave_the_one_before,
    ranks_per_node,
    sum_of,
    tensor_of,
)
from course_lib.learn.judging.report import differing, reports

__all__ = [
    "HierarchicalTry",
    "drops_the_rest",
    "gave",
    "gave_the_sum_before",
    "is_a_row",
    "is_too_long",
    "only_values_of_whole_numbers",
    "out_of_range",
    "raised_first_in",
    "returns_a_part",
    "tries",
]


@dataclass(frozen=True)
class HierarchicalTry:
    """One rank in one case, what it gave, and the calls that it made."""

    kind: str
    rank: int
    world_size: int
    outcome: AnswerOutcome

    @property
    def gave(self) -> Any:
        return self.outcome.got.total

    @property
    def calls(self) -> tuple[Said, ...]:
        return self.outcome.got.calls

    @property
    def per_node(self) -> int:
        return ranks_per_node(self.kind, self.world_size)

    @property
    def node(self) -> list[int]:
        """The ranks of this rank's node."""
        first = self.rank // self.per_node * self.per_node
        return list(range(first, first + self.per_node))

    @property
    def same_place(self) -> list[int]:
        """The ranks with this rank's local rank."""
        return list(range(self.rank % self.per_node, self.world_size, self.per_node))

    @property
    def total(self) -> Tensor:
        return sum_of(self.kind, range(self.world_size))

    @property
    def part_bytes(self) -> int:
        given = tensor_of(self.kind, self.rank)
        return -(-given.numel() // self.per_node) * given.element_size()


def tries(evidence: Evidence) -> Iterator[HierarchicalTry]:
    for at, _ in reports(evidence, HierarchicalReport):
        yield HierarchicalTry(at.kind, at.rank, at.num_ranks, at)


def _is(have: Any, want: Tensor) -> bool:
    if not isinstance(have, Tensor) or have.shape != want.shape:
        return False
    eps = torch.finfo(have.dtype).eps if have.is_floating_point() else 0.0  # a mean of whole numbers is float32
    rounding = max(1e-12, min(8 * eps, 0.01))
    return torch.allclose(have.double(), want.double(), rtol=rounding, atol=0)


def gave(value: Callable[[HierarchicalTry], Tensor]) -> Callable[[Evidence], bool]:
    """Whether this came in every case, and was not right in all."""

    def recognise(evidence: Evidence) -> bool:
        found = list(tries(evidence))
        return evidence.error is None and bool(found) and all(_is(one.gave, value(one)) for one in found)

    return recognise


def _row_of_wrong(evidence: Evidence, is_so: Callable[[HierarchicalTry, Tensor], bool]) -> bool:
    """Whether rows came wherever something is wrong, and all of this kind."""
    wrong = [one for one in tries(evidence) if not one.outcome.right]
    rows = [one.gave for one in wrong if isinstance(one.gave, Tensor) and one.gave.dim() == 1]
    return (
        evidence.error is None
        and bool(wrong)
        and len(rows) == len(wrong)
        and all(is_so(one, row.double()) for one, row in zip(wrong, rows, strict=True))
    )


def is_too_long(evidence: Evidence) -> bool:
    """Whether rows came that begin with the sum and go on."""

    def is_so(one: HierarchicalTry, row: Tensor) -> bool:
        want = one.total.double().flatten()
        return len(row) > len(want) and torch.equal(row[: len(want)], want)

    return _row_of_wrong(evidence, is_so)


def is_a_row(evidence: Evidence) -> bool:
    """Whether the numbers are right, and lie in a row."""
    return _row_of_wrong(evidence, lambda one, row: torch.equal(row, one.total.double().flatten()))


def returns_a_part(evidence: Evidence) -> bool:
    """Whether every rank gave its own part of the sum, filled up by zeros."""

    def is_so(one: HierarchicalTry, row: Tensor) -> bool:
        whole = F.pad(one.total.double().flatten(), (0, -one.total.numel() % one.per_node))
        return torch.equal(row, whole.chunk(one.per_node)[one.rank % one.per_node])

    return _row_of_wrong(evidence, is_so)


def gave_the_sum_before(evidence: Evidence) -> bool:
    """Whether every wrong sum is that of the call before."""
    wrong = [one.outcome for one in tries(evidence) if not one.outcome.right]
    return evidence.error is None and bool(wrong) and all(gave_the_one_before(one.expected, one.got) for one in wrong)


# -- by lengths and errors ----------------------------------------------------------------------------------------


def raised_first_in(*kinds: str) -> Callable[[Evidence], bool]:
    """Whether an error of PyTorch, and no wait without end, is what is wrong first, in one of these cases."""

    def recognise(evidence: Evidence) -> bool:
        error = evidence.error
        return (
            error is not None
            and error.kind != "RankTimeout"
            and evidence.wrong[0].error is not None
            and evidence.wrong[0].case.startswith(kinds)
        )

    return recognise


def out_of_range(evidence: Evidence) -> bool:
    """Whether a rank that is not of node 0 asked a list for a place that it does not have."""
    error = evidence.error
    return error is not None and error.kind == "IndexError"


def drops_the_rest(evidence: Evidence) -> bool:
    """Whether what is wrong are the last numbers of uneven lengths, as the rank had them, and nothing else."""

    def is_so(one: HierarchicalTry) -> bool:
        if (
            not isinstance(one.gave, Tensor)
            or one.gave.shape != one.total.shape
            or "total" not in differing(one.outcome)
        ):
            return False
        have, want = one.gave.flatten(), one.total.flatten()
        fits = len(want) // one.per_node * one.per_node
        own = tensor_of(one.kind, one.rank).flatten()
        return torch.equal(have[:fits], want[:fits]) and bool(
            torch.equal(have[fits:], own[fits:]) or not have[fits:].any()
        )

    wrong = [one for one in tries(evidence) if not one.outcome.right]
    return evidence.error is None and bool(wrong) and all(map(is_so, wrong))


def only_values_of_whole_numbers(evidence: Evidence) -> bool:
    """Whether large whole numbers alone are wrong, and in their last digits; what is narrower may cost more."""
    wrong = [one for one in tries(evidence) if "total" in differing(one.outcome)]
    return (
        evidence.error is None
        and bool(wrong)
        and all(
            one.kind == WHOLE
            and isinstance(one.gave, Tensor)
            and one.gave.shape == one.total.shape
            and torch.allclose(one.gave.double(), one.total.double(), rtol=1e-5)
            for one in wrong
        )
    )
