"""04.ddp: how usual wrong answers are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_04.ddp.cases import SITUATIONS, bucket_sizes, gradient_sizes, oracle
from course_lib.learn.exercises.lesson_04.ddp.reports import OTHER_PARAMETERS, AwkwardReport, ValuesReport
from course_lib.learn.judging.report import Recogniser, differing, only_wrong, reports

__all__ = [
    "calls_late",
    "gave_own",
    "gave_sums",
    "message_sizes",
    "one_call_a_gradient",
    "other_parameters",
    "some_wrong_in",
    "too_soon",
]


def other_parameters(evidence: Evidence) -> bool:
    """Whether what the wrapper calls its parameters are not the module's."""
    found = [report.names for _, report in reports(evidence, ValuesReport) if isinstance(report.names, list)]
    return evidence.error is None and any(names[-1:] == [OTHER_PARAMETERS] for names in found)


def some_wrong_in(label: str) -> Recogniser:
    """Whether something is wrong in this case, and no error came."""
    return lambda evidence: evidence.error is None and any(one.kind == label for one in evidence.wrong)


# -- by gradients -----------------------------------------------------------------------------------------------------


def _first_steps(evidence: Evidence) -> Iterator[tuple[AnswerOutcome, AwkwardReport, dict[str, Any], Any]]:
    """Each outcome, its report, the gradients of its first step, and what the oracle says of it."""
    for outcome, report in reports(evidence, AwkwardReport):
        label = outcome.kind if outcome.kind in SITUATIONS else "three layers"
        if report.gradients:
            yield outcome, report, report.gradients[0], oracle(label, outcome.num_ranks)


def _alike(want: dict[str, Tensor], have: dict[str, Any]) -> bool:
    return all(
        isinstance(have.get(name), Tensor) and torch.allclose(have[name].double(), one.double(), rtol=1e-4, atol=1e-7)
        for name, one in want.items()
    )


def gave_own(*, sent: bool) -> Recogniser:
    """Whether each rank kept its own gradients in the first step; and whether all-reduces were made."""

    def recognise(evidence: Evidence) -> bool:
        found = [
            _alike(one.own[outcome.rank][0], gradients) and bool(report.num_calls) == sent
            for outcome, report, gradients, one in _first_steps(evidence)
        ]
        return evidence.error is None and bool(found) and all(found)

    return recognise


def gave_sums(evidence: Evidence) -> bool:
    """Whether the gradients of the first step are as many times too large as there are ranks."""
    found = [
        _alike({name: tensor * outcome.num_ranks for name, tensor in one.gradients[0].items()}, gradients)
        for outcome, _, gradients, one in _first_steps(evidence)
        if outcome.kind in ("three layers", "buckets of 200 bytes")
    ]
    return evidence.error is None and bool(found) and all(found)


# -- by calls ---------------------------------------------------------------------------------------------------------


def message_sizes(
    *, label: str = "buckets of 200 bytes", is_sorted: bool = False, **rule: Any
) -> Callable[[Evidence], bool]:
    """Whether the messages of a case are those of buckets by another rule (``bucket_sizes``)."""

    def recognise(evidence: Evidence) -> bool:
        found = [report.messages for outcome, report in reports(evidence, AwkwardReport) if outcome.kind == label]
        want = bucket_sizes(label, **rule)
        return evidence.error is None and bool(found) and all(_steps_are(one, want, is_sorted) for one in found)

    return recognise


def _steps_are(messages: Any, want: list[int], is_sorted: bool) -> bool:
    steps = [sorted(one) for one in messages] if is_sorted else messages
    return all(one == (sorted(want) if is_sorted else want) for one in steps)


def one_call_a_gradient(evidence: Evidence) -> bool:
    """Whether every case has a message for each gradient, and nothing but the messages is wrong."""
    found = [
        _steps_are(report.messages, gradient_sizes(outcome.kind), True)
        for outcome, report in reports(evidence, AwkwardReport)
        if outcome.kind == "buckets of 200 bytes"
    ]
    return only_wrong("messages", "views", "early", "waits", "stays", "peak")(evidence) and bool(found) and all(found)


def _begun(evidence: Evidence) -> list[tuple[int, int]]:
    """Of each gradient that came: how many buckets were complete, and how many all-reduces had begun."""
    return [
        pair
        for one in evidence.wrong
        if one.error is None and "early" in differing(one)
        for due, have in zip(one.expected.early, one.got.early, strict=True)
        for pair in zip(due, have, strict=False)
    ]


def calls_late(evidence: Evidence) -> bool:
    """Whether nothing but the moment of the calls is wrong, and some were later than they could be."""
    begun = _begun(evidence)
    return only_wrong("early", "waits")(evidence) and bool(begun) and all(have <= due for due, have in begun)


def too_soon(evidence: Evidence) -> bool:
    """Whether some all-reduce began before its bucket was complete."""
    begun = _begun(evidence)
    return evidence.error is None and any(have > due for due, have in begun)
