"""10.experts: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from course_lib.learn.exercises.lesson_10.call_reports import CallReport, gradients_differ, outputs_differ, too_many
from course_lib.learn.judging.compare import no_more
from course_lib.learn.judging.report import fact

__all__ = [
    "ExpertsBackwardReport",
    "ExpertsBalanceReport",
    "ExpertsExchangeReport",
    "ExpertsMemoryReport",
    "ExpertsValuesReport",
]


@dataclass(frozen=True, kw_only=True)
class ExpertsValuesReport(CallReport):
    """Step 1: the outputs."""

    asked_for = "a layer that was called"


@dataclass(frozen=True, kw_only=True)
class ExpertsBackwardReport(ExpertsValuesReport):
    """Step 2: the gradients of this rank's tokens, router and experts."""

    gradients: Any = fact("the outputs are right. Gradients: {difference}", by=gradients_differ())


@dataclass(frozen=True, kw_only=True)
class ExpertsExchangeReport(ExpertsBackwardReport):
    """Steps 3 and 5: what is computed and sent."""

    rows: Any = fact(too_many("In a call this rank's experts computed {} rows"), by=no_more)
    pieces: Any = fact(too_many("In a call one of this rank's experts was called {} times"), by=no_more)
    sent: Any = fact(too_many("Forward, this rank sent {} bytes"), by=no_more)
    sent_back: Any = fact(too_many("Backward, this rank sent {} bytes"), by=no_more)
    calls: Any = fact(too_many("Forward, this rank made {} calls to others"), by=no_more)
    calls_back: Any = fact(too_many("Backward, this rank made {} calls to others"), by=no_more)


@dataclass(frozen=True, kw_only=True)
class ExpertsMemoryReport(ExpertsExchangeReport):
    """Step 4: what is there."""

    largest: Any = fact(too_many("The largest tensor that this rank made has {} numbers"), by=no_more)
    held: Any = fact(too_many("Between forward and backward this rank kept {} bytes"), by=no_more)
    left: Any = fact("the values are right. When all was over, there was still something there: {got}")


@dataclass(frozen=True, kw_only=True)
class ExpertsBalanceReport(ExpertsMemoryReport):
    """Steps 6 and 7: the load-balancing loss, as the mean over ranks."""

    balance: Any = fact(
        "the outputs are right. The load-balancing loss, its mean over ranks: {difference}", by=outputs_differ
    )
