"""10.dispatch: how usual wrong answers are told, by what such an answer would give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_10.dispatch.cases import outputs_of, own_experts, tokens_of
from course_lib.learn.exercises.lesson_10.dispatch.slips import Slip, given_by
from course_lib.learn.exercises.lesson_10.dispatch.trial import DispatchReport, differing_rows
from course_lib.learn.judging.report import Recogniser, always

__all__ = [
    "ended_so",
    "gives",
    "gives_none",
    "has_other_dtype",
    "is_of_this_rank_alone",
    "keeps_one_choice",
]


def _always(holds: Callable[[tuple[str, int, int], Any], bool]) -> Recogniser:
    """Whether this holds of every output, by its case, its rank, and of how many."""
    return always(DispatchReport, lambda at, report: holds((at.kind, at.rank, at.num_ranks), report.out))


def gives(*slips: Slip) -> Recogniser:
    """Whether each output is what one of these slips gives, the same slip in every case."""

    def by(slip: Slip) -> Recogniser:
        return _always(lambda place, out: not differing_rows(given_by(slip, place[0], place[2])[place[1]], out))

    return lambda evidence: any(by(slip)(evidence) for slip in slips)


def is_of_this_rank_alone(evidence: Evidence) -> bool:
    """Whether only choices count whose expert is on the token's own rank."""

    def holds(place: tuple[str, int, int], out: Any) -> bool:
        kind, rank, num_ranks = place
        given, own = tokens_of(kind, rank, num_ranks), own_experts(kind, rank, num_ranks)
        is_here = (given.chosen >= own.start) & (given.chosen < own.stop)
        return not differing_rows((outputs_of(*place) * (given.weights * is_here).unsqueeze(-1)).sum(1), out)

    return _always(holds)(evidence)


def keeps_one_choice(evidence: Evidence) -> bool:
    """Whether each token has the weighted output of one of its choices, whichever it is."""

    def holds(place: tuple[str, int, int], out: Any) -> bool:
        choices = outputs_of(*place) * tokens_of(*place).weights.unsqueeze(-1)  # (N, k, D)
        if not isinstance(out, Tensor) or out.shape != choices[:, 0].shape:
            return False
        near = torch.isclose(choices, out.unsqueeze(1).to(choices.dtype), rtol=1e-9, atol=1e-11)
        return bool(near.all(-1).any(-1).all())

    return _always(holds)(evidence)


def gives_none(evidence: Evidence) -> bool:
    return _always(lambda place, out: out is None)(evidence)


def has_other_dtype(evidence: Evidence) -> bool:
    """Whether the numbers are right but for their precision."""

    def holds(place: tuple[str, int, int], out: Any) -> bool:
        want = (outputs_of(*place) * tokens_of(*place).weights.unsqueeze(-1)).sum(1)
        is_like = isinstance(out, Tensor) and out.shape == want.shape and out.dtype != want.dtype
        return is_like and torch.allclose(out.double(), want, rtol=1e-2, atol=1e-2)

    return _always(holds)(evidence)


# -- what ended with an error ---------------------------------------------------------------------------------------


def ended_so(outcome: AnswerOutcome) -> bool:
    return outcome.error is not None
