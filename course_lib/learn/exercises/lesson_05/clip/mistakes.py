"""05.clip: how usual wrong answers are told by the norm that they go by, and by what they leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isclose, nan
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_05.clip.cases import (
    FEW,
    NO_NUMBER,
    ONE_LARGE,
    THERE_IS_NONE,
    ZEROS,
    ClipReport,
    gradients_of,
    max_norm_of,
    norms,
)
from course_lib.learn.judging.errors import is_deadlock
from course_lib.learn.judging.report import NOTHING, compare, only_wrong, reports

__all__ = [
    "ClipTry",
    "asks_none_for_its_numbers",
    "begins_with_no_gradient",
    "clips_by",
    "divides_by_zero",
    "fills_what_is_none",
    "gave",
    "gives_no_norm",
    "is_right_on_rank_0_alone",
    "leaves_all_as_it_was",
    "of_all",
    "scaled_weights",
    "scales",
]


@dataclass(frozen=True)
class ClipTry:
    """One rank in one case: what it had, and what became of it."""

    kind: str
    rank: int
    norms: tuple[float, ...]  # of each rank's own gradients
    max_norm: float
    returned: Any  # a number, or words
    factor: float  # by which all gradients of this rank were scaled; nan where there is no such number
    has_length: bool  # not all of its gradients are zero

    @property
    def own(self) -> float:
        return self.norms[self.rank]

    @property
    def norms_of_shards(self) -> tuple[float, ...]:
        """Of every gradient on every rank."""
        every = (gradients_of(self.kind, rank, len(self.norms)).values() for rank in range(len(self.norms)))
        return tuple(float(one.double().norm()) for mine in every for one in mine if one is not None)


Number = Callable[[ClipTry], float]  # what a wrong answer took for the norm


def of_all(one: ClipTry) -> float:
    return sum(norm**2 for norm in one.norms) ** 0.5


def _tries(evidence: Evidence) -> Iterator[ClipTry]:
    for at, report in reports(evidence, ClipReport):
        own = {n: g for n, g in gradients_of(at.kind, at.rank, at.num_ranks).items() if g is not None}
        before = torch.cat([torch.zeros(0), *(gradient.flatten() for gradient in own.values())]).double()
        came = [report.gradients[name] for name in own]
        after = [one.flatten().double() for one in came if isinstance(one, Tensor)]
        yield ClipTry(
            at.kind,
            at.rank,
            norms(at.kind, at.num_ranks),
            max_norm_of(at.kind),
            report.norm,
            _factor(before, torch.cat([torch.zeros(0), *after])),
            bool(before.any()),
        )


def _factor(before: Tensor, after: Tensor) -> float:
    if before.shape != after.shape or not before.any():
        return nan
    factor = float(after @ before / (before @ before))
    return factor if torch.allclose(after, factor * before, rtol=1e-4, atol=1e-7) else nan


def _is(have: Any, want: float) -> bool:
    return isinstance(have, float) and isclose(have, want, rel_tol=1e-4, abs_tol=1e-8)


def _factor_of(norm: float, one: ClipTry) -> float:
    return min(1.0, one.max_norm / norm) if norm else 1.0


def scales(factor: Callable[[ClipTry], float]) -> Callable[[Evidence], bool]:
    """Whether every rank that has gradients scaled them by this, in every case."""

    def recognise(evidence: Evidence) -> bool:
        tries = [one for one in _tries(evidence) if one.has_length]
        return evidence.error is None and bool(tries) and all(_is(one.factor, factor(one)) for one in tries)

    return recognise


def clips_by(*numbers: Number) -> Callable[[Evidence], bool]:
    """Whether gradients were clipped as if one of these numbers were the norm, the same in every case."""

    def by(number: Number) -> Callable[[Evidence], bool]:
        return scales(lambda one: _factor_of(number(one), one))

    return lambda evidence: any(by(number)(evidence) for number in numbers)


def gave(number: Number) -> Callable[[Evidence], bool]:
    """Whether gradients are right, and this number was returned in every case."""

    def recognise(evidence: Evidence) -> bool:
        return clips_by(of_all)(evidence) and all(_is(one.returned, number(one)) for one in _tries(evidence))

    return recognise


def gives_no_norm(evidence: Evidence) -> bool:
    """Whether gradients are right, and None was returned in every case."""
    return clips_by(of_all)(evidence) and all(one.returned == f"{NO_NUMBER}None" for one in _tries(evidence))


def leaves_all_as_it_was(evidence: Evidence) -> bool:
    """Whether the norm is right, and no gradient is other than it was."""
    return scales(lambda one: 1.0)(evidence) and only_wrong("gradients")(evidence)


def scaled_weights(evidence: Evidence) -> bool:
    """Whether the same is so, and the shards have changed."""
    tells = [outcome for outcome in evidence.wrong if outcome.got.kept != NOTHING]
    return scales(lambda one: 1.0)(evidence) and bool(tells) and only_wrong("gradients", "kept")(evidence)


def fills_what_is_none(evidence: Evidence) -> bool:
    """Whether nothing is wrong but zeros where there was None."""
    return evidence.error is None and all(map(_is_filled, evidence.wrong))


def _is_filled(outcome: AnswerOutcome) -> bool:
    want, got = outcome.expected.gradients, outcome.got.gradients
    filled = [name for name, one in want.items() if isinstance(one, str)]
    zeros = all(isinstance(got[name], Tensor) and not got[name].any() for name in filled)
    mended = replace(outcome.got, gradients={**got, **dict.fromkeys(filled, THERE_IS_NONE)})
    return bool(filled) and zeros and not compare(outcome.expected, mended)


def is_right_on_rank_0_alone(evidence: Evidence) -> bool:
    """Whether rank 0 is right in every case, and each other rank returned another norm."""
    tries = [one for one in _tries(evidence) if of_all(one)]
    firsts = [_is(one.returned, of_all(one)) and _is_clipped(one) for one in tries if one.rank == 0]
    others = [not _is(one.returned, of_all(one)) for one in tries if one.rank]
    return evidence.error is None and all(firsts) and bool(others) and all(others)


def _is_clipped(one: ClipTry) -> bool:
    return _is(one.factor, _factor_of(of_all(one), one))


# -- what ended with an error -------------------------------------------------------------------------------------


def begins_with_no_gradient(evidence: Evidence) -> bool:
    """Whether the first thing that is wrong is an error of the rank without gradients."""
    return evidence.error is not None and not is_deadlock(evidence) and evidence.wrong[0].case.startswith(FEW)


def asks_none_for_its_numbers(evidence: Evidence) -> bool:
    error = evidence.error
    return error is not None and "None" in error.message and not evidence.wrong[0].case.startswith((FEW, ONE_LARGE))


def divides_by_zero(evidence: Evidence) -> bool:
    """Whether Python refused to divide by the norm of zeros."""
    error = evidence.error
    return error is not None and error.kind == "ZeroDivisionError" and evidence.wrong[0].case.startswith(ZEROS)
