"""05.fsdp: how usual wrong wrappers are told, by the weights that they make and by what they send, keep and begin."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_05.fsdp.cases import SITUATIONS, first_weights_losses, scaled
from course_lib.learn.exercises.lesson_05.fsdp.models import WIDE_LAYERS
from course_lib.learn.exercises.lesson_05.fsdp.reports import (
    FsdpToolsReport,
    FsdpValuesReport,
    losses_alike,
    state_alike,
)
from course_lib.learn.judging.report import Recogniser, differing, only_wrong, reports, some_wrong

__all__ = [
    "ahead",
    "asks_for_no_sum",
    "calls",
    "first_norms",
    "is_whole_at_rest",
    "keeps_whole_parameters",
    "norm_is_no_number",
    "sums_not_means",
    "uses_old_weights",
    "without_error_in",
]

_BY_SGD = "blocks, and a rest"
_SUMS = ("reduce", "all_to_all")
_COSTS = {"sent", "num_calls", "rest", "between", "fullest", "evaluated", "growth", "ahead", "ahead_back"}
Seen = Callable[[AnswerOutcome, FsdpValuesReport], bool]


def without_error_in(*labels: str) -> Recogniser:
    """Whether something is wrong in these cases alone, and no error came."""
    return lambda e: e.error is None and bool(e.wrong) and all(one.kind in labels for one in e.wrong)


def _all_wrong(evidence: Evidence, holds: Seen, *, of: str) -> bool:
    """Whether this holds of every report in which the fact ``of`` is wrong, and there is one."""
    found = [(one, got) for one, got in reports(evidence, FsdpValuesReport) if of in differing(one)]
    return evidence.error is None and bool(found) and all(holds(one, got) for one, got in found)


def sums_not_means(evidence: Evidence) -> bool:
    """Whether the first step of SGD goes as many times too far as there are ranks."""
    found = [
        state_alike(scaled(one.kind, one.num_ranks), got.weights[0])
        for one, got in reports(evidence, FsdpValuesReport)
        if one.kind == _BY_SGD and one.num_ranks > 1
    ]
    return evidence.error is None and bool(found) and not any(found)


def asks_for_no_sum(evidence: Evidence) -> bool:
    """Whether weights are wrong, and forward and backward made no call that sums or deals out."""
    return _all_wrong(
        evidence,
        lambda _, got: not any(word in name for name in got.operations for word in _SUMS),
        of="weights",
    )


def uses_old_weights(evidence: Evidence) -> bool:
    """Whether all losses are those of the weights before the first step."""
    found = [
        losses_alike(first_weights_losses(one.kind, one.rank), got.losses)
        for one, got in reports(evidence, FsdpValuesReport)
        if one.kind in (_BY_SGD, "layers") and "losses" in differing(one)
    ]
    return evidence.error is None and bool(found) and not any(found)


def calls(holds: Callable[[tuple[str, ...], int], bool]) -> Recogniser:
    """Whether values are right, bytes or calls are not, and of each such run its calls and number of units are so."""

    def recognise(evidence: Evidence) -> bool:
        costs = [differing(one) for one in evidence.wrong]
        is_cost = evidence.error is None and all(one <= _COSTS for one in costs)
        is_sent = any(one & {"sent", "num_calls"} for one in costs)
        seen = [
            (got.operations, SITUATIONS[one.kind].num_units())
            for one, got in reports(evidence, FsdpValuesReport)
            if differing(one) & {"sent", "num_calls"}
        ]
        return is_cost and is_sent and all(holds(names, units) for names, units in seen)

    return recognise


def keeps_whole_parameters(evidence: Evidence) -> bool:
    """Whether ``parameters()`` have far more numbers than this rank's part."""
    return evidence.error is None and any(
        "own" in differing(one) and got.own > 1.4 * one.expected.own for one, got in reports(evidence, FsdpValuesReport)
    )


def is_whole_at_rest(evidence: Evidence) -> bool:
    """Whether between steps a whole model lies in memory, or more."""
    return some_wrong("rest")(evidence) and _all_wrong(
        evidence, lambda _, got: getattr(got, "rest", 0) >= WIDE_LAYERS, of="rest"
    )


def ahead(holds: Callable[[tuple[int, int], tuple[int, int]], bool], *, of: tuple[str, ...]) -> Recogniser:
    """Whether only the order of calls is wrong, and each (begun, waited) is so beside what is due where it is wrong."""

    def recognise(evidence: Evidence) -> bool:
        pairs = [
            (due, came)
            for one, got in reports(evidence, FsdpValuesReport)
            for name in sorted(differing(one) & {*of})
            for due, came in zip(getattr(one.expected, name), getattr(got, name), strict=False)
            if came[0] != due[0] or came[1] > due[1]
        ]
        return only_wrong(*of)(evidence) and bool(pairs) and all(holds(due, came) for due, came in pairs)

    return recognise


def first_norms(*, agree: bool) -> Recogniser:
    """Whether the norm of the first step is wrong, and whether all ranks were given the same."""

    def recognise(evidence: Evidence) -> bool:
        given: dict[int, list[float]] = {}
        for one, got in reports(evidence, FsdpToolsReport):
            first = got.norms[0] if one.kind == "a clip" else None
            if isinstance(first, float) and abs(first - one.expected.norms[0]) > 1e-6 * first:
                given.setdefault(one.num_ranks, []).append(first)
        unlike = any(max(each) - min(each) > 1e-9 * max(each) for each in given.values())
        return evidence.error is None and bool(given) and unlike != agree

    return recognise


def norm_is_no_number(evidence: Evidence) -> bool:
    """Whether a clip gave something else than a finite 0-d tensor."""
    given = [norm for one, got in reports(evidence, FsdpToolsReport) if one.kind == "a clip" for norm in got.norms]
    return evidence.error is None and any(not isinstance(norm, float) for norm in given)
