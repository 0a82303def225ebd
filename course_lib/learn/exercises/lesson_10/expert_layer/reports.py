"""10.experts: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.learn.exercises.lesson_10.ring.reports import Outputs, near
from course_lib.learn.judging.report import NOTHING, RankReport, fact

__all__ = [
    "A_LAYER",
    "ExpertsBackwardReport",
    "ExpertsBalanceReport",
    "ExpertsExchangeReport",
    "ExpertsMemoryReport",
    "ExpertsValuesReport",
]

A_LAYER = "an object that can be called"


def _outputs(want: Outputs, have: Sequence[Any]) -> str:
    for number, (due, came) in enumerate(zip(want, have, strict=True), start=1):
        if found := near(due, came, want.within):
            return f"call {number}: {found}"
    return ""


def _gradients(want: Outputs, have: Sequence[Mapping[str, Any]]) -> str:
    for number, (due, came) in enumerate(zip(want, have, strict=True), start=1):
        for name, tensor in due.items():
            if came.get(name) is None:
                return f"after call {number}, {name} has none"
            if found := near(tensor, came[name], 2 * want.within):
                return f"after call {number}, that of {name}: {found}"
    return ""


def _balances(want: Outputs, have: Sequence[Any]) -> str:
    for number, (due, came) in enumerate(zip(want, have, strict=True), start=1):
        if found := near(due, came, 1e-6):
            return f"call {number}: {found}"
    return ""


def _no_more(want: int, have: int) -> str:
    return "more" if have > want else ""


def _more(what: str) -> Callable[[int, int, str], str]:
    return lambda want, have, _: f"the values are right. {what.format(f'{have:,}')}, and {want:,} are enough"


@dataclass(frozen=True, kw_only=True)
class ExpertsValuesReport(RankReport):
    """Step 1: the outputs."""

    asked_for = "a layer that was called"
    made: str = fact("an object that can be called is asked for, and it is {got}", right=A_LAYER)
    outputs: Any = fact("the output, {difference}", by=_outputs)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)


@dataclass(frozen=True, kw_only=True)
class ExpertsBackwardReport(ExpertsValuesReport):
    """Step 2: the gradients of this rank's tokens, router and experts."""

    gradients: Any = fact("the outputs are right. Gradients: {difference}", by=_gradients)


@dataclass(frozen=True, kw_only=True)
class ExpertsExchangeReport(ExpertsBackwardReport):
    """Steps 3 and 5: what is computed and sent."""

    rows: Any = fact(_more("In a call this rank's experts computed {} rows"), by=_no_more)
    pieces: Any = fact(_more("In a call one of this rank's experts was called {} times"), by=_no_more)
    sent: Any = fact(_more("Forward, this rank sent {} bytes"), by=_no_more)
    sent_back: Any = fact(_more("Backward, this rank sent {} bytes"), by=_no_more)
    calls: Any = fact(_more("Forward, this rank made {} calls to others"), by=_no_more)
    calls_back: Any = fact(_more("Backward, this rank made {} calls to others"), by=_no_more)


@dataclass(frozen=True, kw_only=True)
class ExpertsMemoryReport(ExpertsExchangeReport):
    """Step 4: what is there."""

    largest: Any = fact(_more("The largest tensor that this rank made has {} numbers"), by=_no_more)
    held: Any = fact(_more("Between forward and backward this rank kept {} bytes"), by=_no_more)
    left: Any = fact("the values are right. When all was over, there was still something there: {got}")


@dataclass(frozen=True, kw_only=True)
class ExpertsBalanceReport(ExpertsMemoryReport):
    """Steps 6 and 7: the load-balancing loss, as the mean over ranks."""

    balance: Any = fact(
        "the outputs are right. The load-balancing loss, its mean over ranks: {difference}", by=_balances
    )
