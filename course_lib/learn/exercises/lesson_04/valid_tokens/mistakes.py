"""04.valid_tokens: how usual wrong answers are told, by what tokens weigh in the gradients and where ranks wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_04.valid_tokens.cases import NONE, RAGGED, TokenCounts, Weigh, gradient, over
from course_lib.learn.exercises.lesson_04.valid_tokens.trial import NO_NUMBER, PlainNumber, TokenReport
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.errors import hangs_in
from course_lib.learn.judging.report import Recogniser, differing, only_in, only_wrong, reports

__all__ = [
    "above_zero",
    "all_positions",
    "by_micro_batches_too",
    "count_of_each",
    "divided_twice",
    "divides_by_nothing",
    "for_four_ranks",
    "for_two_ranks",
    "keeps_the_first_count",
    "leaves_no_gradients",
    "makes_more_calls",
    "mean_of_means",
    "multiplied_twice",
    "never_averages",
    "never_divided",
    "no_part",
    "own_count",
    "part_is_no_tensor",
    "rounds_the_count",
    "sends_each_time",
    "shows_gradients",
    "sum_of_means",
    "too_large",
    "weighs",
]

_close = close_to(1e-5, 1e-9)

# -- what a token's loss is multiplied by, after the mean over ranks ------------------------------------------------


def mean_of_means(batch: TokenCounts, rank: int, index: int) -> float:
    return over(len(batch.valid) * len(batch.valid[rank]) * batch.valid[rank][index])


def sum_of_means(batch: TokenCounts, rank: int, index: int) -> float:
    return over(len(batch.valid) * batch.valid[rank][index])


def own_count(batch: TokenCounts, rank: int, index: int) -> float:
    return over(len(batch.valid) * sum(batch.valid[rank]))


def divided_twice(batch: TokenCounts, rank: int, index: int) -> float:
    return over(len(batch.valid) * batch.num_valid)


def multiplied_twice(batch: TokenCounts, rank: int, index: int) -> float:
    return len(batch.valid) * over(batch.num_valid)


def by_micro_batches_too(batch: TokenCounts, rank: int, index: int) -> float:
    return over(len(batch.valid[rank]) * batch.num_valid)


def all_positions(batch: TokenCounts, rank: int, index: int) -> float:
    return over(sum(map(sum, batch.sizes)))


def never_divided(batch: TokenCounts, rank: int, index: int) -> float:
    return over(len(batch.valid))


def above_zero(batch: TokenCounts, rank: int, index: int) -> float:
    return over(sum(map(sum, batch.above_zero)))


def for_four_ranks(batch: TokenCounts, rank: int, index: int) -> float:
    return 4 * divided_twice(batch, rank, index)


def for_two_ranks(batch: TokenCounts, rank: int, index: int) -> float:
    return 2 * divided_twice(batch, rank, index)


def count_of_each(batch: TokenCounts, rank: int, index: int) -> float:
    """One count over all ranks for each micro-batch. Where ranks have not as many, they wait for each other."""
    return over(len(batch.valid[rank]) * sum(own[index] for own in batch.valid if index < len(own)))


def weighs(*ways: Weigh, may_hang: bool = False) -> Recogniser:
    """Whether all gradients of the first step are those in which tokens weigh so, by one of these ways."""

    def recognise(evidence: Evidence) -> bool:
        if evidence.error is not None and not (may_hang and hangs_in(RAGGED)(evidence)):
            return False
        found = [one for one in reports(evidence, TokenReport) if one[0].kind != NONE]
        return bool(found) and any(all(_weigh(*one, way) for one in found) for way in ways)

    return recognise


def _weigh(outcome: AnswerOutcome, report: TokenReport, way: Weigh) -> bool:
    return not _close(gradient(outcome.kind, outcome.num_ranks, 0, way), report.gradients[0])


# -- by other facts -------------------------------------------------------------------------------------------------


def shows_gradients(outcome: AnswerOutcome) -> bool:
    """Whether it shows gradients that differ, where the answer gives the right ones in other cases."""
    return "gradients" in differing(outcome)


def never_averages(evidence: Evidence) -> bool:
    """Whether no gradients were sent, in any case."""
    found = [report.sent for _, report in reports(evidence, TokenReport)]
    return evidence.error is None and bool(found) and not any(found)


def sends_each_time(evidence: Evidence) -> bool:
    """Whether gradients are right and went out several times; ranks with more micro-batches then wait."""
    found = [one for one in evidence.wrong if one.error is None]
    return (
        (evidence.error is None or hangs_in(RAGGED)(evidence))
        and bool(found)
        and all(differing(one) <= {"sent", "calls"} and "sent" in differing(one) for one in found)
    )


def makes_more_calls(evidence: Evidence) -> bool:
    """Whether gradients are right and calls are too many; what they are for may stand in the part of the loss."""
    return only_wrong("calls", "parts")(evidence) and any("calls" in differing(one) for one in evidence.wrong)


def rounds_the_count(evidence: Evidence) -> bool:
    """Whether gradients alone, and the part of the loss with them, are wrong, by a factor that is nearly 1."""
    return (
        only_wrong("gradients", "parts")(evidence)
        and any(map(shows_gradients, evidence.wrong))
        and all(
            _is_nearly(want, have)
            for one in evidence.wrong
            for want, have in zip(one.expected.gradients, one.got.gradients, strict=False)
        )
    )


def _is_nearly(expected: Mapping[str, Tensor], got: Mapping[str, Any]) -> bool:
    """Whether these are the expected gradients times one factor, which is off by less than 2 %."""
    if expected.keys() != got.keys() or not all(isinstance(one, Tensor) for one in got.values()):
        return False
    want, have = (torch.cat([one[name].flatten() for name in expected]).double() for one in (expected, got))
    if want.shape != have.shape:
        return False
    factor = float(have @ want / (want @ want).clamp(min=1e-30))
    return abs(factor - 1) < 0.02 and not _close(want * factor, have)


def keeps_the_first_count(evidence: Evidence) -> bool:
    """Whether the first step is right in every case, and the second is not."""
    return (
        only_wrong("gradients", "parts")(evidence)
        and any(map(shows_gradients, evidence.wrong))
        and all(not _close(one.expected.gradients[0], one.got.gradients[0]) for one in evidence.wrong)
    )


def _parts_are(value: Callable[[AnswerOutcome], object]) -> Recogniser:
    """Whether nothing is wrong but the parts of the loss, and the first one is this in every wrong case."""
    return lambda evidence: (
        only_wrong("parts")(evidence)
        and all(one.got.parts[0] == value(one) or not _close(value(one), one.got.parts[0]) for one in evidence.wrong)
    )


no_part = _parts_are(lambda _: NO_NUMBER)
too_large = _parts_are(lambda one: one.expected.parts[0] * one.num_ranks)


def part_is_no_tensor(evidence: Evidence) -> bool:
    """Whether nothing is wrong but that right parts of the loss came as numbers of Python."""
    return only_wrong("parts")(evidence) and all(
        isinstance(have, PlainNumber) and not _close(want, float(have))
        for one in evidence.wrong
        for want, have in zip(one.expected.parts, one.got.parts, strict=False)
    )


# -- where no token is valid on any rank ------------------------------------------------------------------------------


def _with_nothing_valid(holds: Callable[[TokenReport], bool]) -> Recogniser:
    """Whether only that case is wrong, and this holds of a step there."""
    return lambda evidence: (
        evidence.error is None and only_in(NONE)(evidence) and any(holds(one.got) for one in evidence.wrong)
    )


def _has_a_nan(report: TokenReport) -> bool:
    tensors = [one for by_name in report.gradients for one in by_name.values() if isinstance(one, Tensor)]
    return any(bool(one.isnan().any()) for one in tensors) or any(part != part for part in report.parts)


divides_by_nothing = _with_nothing_valid(_has_a_nan)
leaves_no_gradients = _with_nothing_valid(
    lambda report: any(not isinstance(one, Tensor) for by_name in report.gradients for one in by_name.values())
)
