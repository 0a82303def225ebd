"""04.overlap: what is seen of a few steps of backward with the learner's hooks on, and how each difference is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from course_lib.learn.exercises.lesson_04.tries import EXACT, KEPT
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, Report, fact

__all__ = ["METERED", "EarlyReport"]

METERED = 3  # steps under the meter

Gradients = Mapping[str, "Tensor | str"]


def _of_steps(expected: Mapping[int, Gradients], got: Mapping[int, Gradients]) -> str:
    """The first step whose gradients differ."""
    for step, want in expected.items():
        if found := EXACT(want, got[step]) if step in got else "it is missing":
            return f"the gradients of step {step}: {found}"
    return ""


def _of_early(expected: Sequence[Sequence[int]], got: Sequence[Sequence[int]], _: str) -> str:
    """The first gradient at which other all-reduces had begun than should have."""
    for step, (wanted, came) in enumerate(zip(expected, got, strict=False), start=1):  # a run may have ended early
        if len(wanted) != len(came):
            return f"in step {step}, {len(came)} gradients came and {len(wanted)} were expected"
        for number, (want, have) in enumerate(zip(wanted, came, strict=True), start=1):
            if want != have:
                return (
                    f"in step {step}, when gradient {number} of {len(wanted)} came, {want} of the buckets "
                    f"{'was' if want == 1 else 'were'} complete, and {have} all-reduce{'s' * (have != 1)} had begun"
                )
    return ""


def _of_waits(expected: Sequence[int], waits: Sequence[int], _: str) -> str:
    """The first step whose backward waited."""
    step, count = next(((step, count) for step, count in enumerate(waits, start=1) if count), (len(waits), 0))
    return f"in step {step}, backward waited {count} time{'s' * (count > 1)} for an all-reduce; only `finish` waits"


def _of_calls(expected: float, got: float, _: str) -> str:
    return (
        f"{METERED} steps made {METERED * got:g} all-reduces together, where {METERED * expected:g} are "
        "needed: one for each bucket and step"
    )


def _of_others(expected: Sequence[str], got: Sequence[str], _: str) -> str:
    """Operations of all steps, as what each of them had on average: "1 barrier"."""
    counted = ", ".join(f"{count / METERED:g} {name}" for name, count in Counter(got).items())
    return f"besides the all-reduces of the buckets, each step made calls that nothing needs: {counted}"


def _of_waited(expected: bool, got: bool | str, _: str) -> str:
    return f"{got} calls were never waited for" if got else "none of the calls was ever waited for"


@dataclass(frozen=True, kw_only=True)
class EarlyReport(Report):
    """What a rank has seen. Where a step changed what was to stay, later steps were not run, and have no facts."""

    asked_for = "a function"
    finish: str = fact("`start_early` is to return a function, `finish`, and what came is {got}", right="a function")
    kept: str = fact(KEPT, right=NOTHING)
    hooks: str = fact(KEPT, right=NOTHING)  # that came or went with a step
    gradients: Any = fact("{difference}", by=_of_steps, right=NOT_DEMANDED)  # by step, then by name
    early: Any = fact(_of_early, right=NOT_DEMANDED)  # of each step: all-reduces begun when each gradient came
    waits: Any = fact(_of_waits, right=NOT_DEMANDED)  # of each step: waits inside backward
    num_calls: Any = fact(_of_calls, right=NOT_DEMANDED)  # all-reduces in a step
    others: Any = fact(_of_others, right=NOT_DEMANDED)  # other calls
    waited: Any = fact(_of_waited, right=NOT_DEMANDED)  # for all calls; or for how many it was not
    again: Any = fact("calls of an earlier step were waited for once more", right=NOT_DEMANDED)
    growth: Any = fact("numbers kept from one step to the next: {difference}", by=EXACT, right=NOT_DEMANDED)
    inside: Any = NOT_DEMANDED  # of each step: calls inside backward; nobody is judged by it
