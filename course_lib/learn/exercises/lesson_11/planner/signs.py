"""11.planner: by what a usual mistake is recognised.

Most are in one formula. One is recognised by the parts that this formula gives: in all cases they are what the same
mistake makes of the course's planner. Other parts may be wrong as well, and are named afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Mistake
from course_lib.learn.exercises.lesson_11.planner.facts import PlanReport, facts_of, same
from course_lib.learn.exercises.lesson_11.planner.situations import PlanQuestion, PublishedCase
from course_lib.learn.judging.report import NOT_DEMANDED, differing, only_wrong, reports
from course_lib.plan.by_hand.planner import Planner

__all__ = ["keeps_the_guess", "knows_no_other_job", "part_mistake", "scales_everything", "shows", "with_part"]


def with_part(part: type, planner: type = Planner) -> type:
    """A planner in which this part of a wrong answer stands before its own formulas."""
    return type(f"{part.__name__}In{planner.__name__}", (part, planner), {})


@cache
def _told(part: type, asked: PlanQuestion) -> PlanReport:
    return facts_of(with_part(part), asked)


def _like(part: type, *names: str) -> Callable[[Evidence], bool]:
    """Whether these parts are in every case what the mistake makes of them, and somewhere wrong."""

    def recognise(evidence: Evidence) -> bool:
        is_wrong = False
        for outcome, report in reports(evidence, PlanReport):
            if isinstance(report.asked, PublishedCase):
                continue
            for name in names:
                if getattr(report, name) is NOT_DEMANDED:
                    continue
                if not _alike(getattr(_told(part, report.asked), name), getattr(report, name)):
                    return False
                is_wrong = is_wrong or name in differing(outcome)
        return is_wrong

    return recognise


def _alike(one: object, other: object) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys()
    return same(one, other)


def shows(*names: str) -> Callable[[AnswerOutcome], bool]:
    """Picks an outcome in which one of these parts is wrong."""
    return lambda outcome: bool(differing(outcome) & {*names})


def part_mistake(name: str, part: type, parts: tuple[str, ...], message: str) -> Mistake:
    """A mistake of one formula, by the parts that it gives."""
    return Mistake(name, message, recognise=_like(part, *parts), shows=shows(*parts))


def _steps(evidence: Evidence) -> list[PlanReport]:
    found = [report for _, report in reports(evidence, PlanReport) if report.steps is not NOT_DEMANDED]
    return [one for one in found if all(isinstance(step_s, float) for step_s in (*one.steps, *one.unfitted))]


def keeps_the_guess(evidence: Evidence) -> bool:
    """Whether machines that were fitted give the same seconds as before, and that alone is wrong."""
    found = _steps(evidence)
    return bool(found) and only_wrong("steps")(evidence) and all(same(one.steps, one.unfitted) for one in found)


def scales_everything(evidence: Evidence) -> bool:
    """Whether in each cluster all steps are the same number of times as long as without any runs, and not once."""
    if not only_wrong("steps")(evidence):
        return False
    factors = [
        [step_s / plain_s for step_s, plain_s in zip(one.steps, one.unfitted, strict=True)] for one in _steps(evidence)
    ]
    flat = [all(same(each[0], other) for other in each) for each in factors]
    return bool(flat) and all(flat) and not all(same(each[0], 1.0) for each in factors)


def knows_no_other_job(evidence: Evidence) -> bool:
    """Whether jobs that nobody ran take as long as the runs that they were made of."""
    found = [report for _, report in reports(evidence, PlanReport) if report.changed is not NOT_DEMANDED]
    return bool(found) and all(abs(ratio - 1) < 0.01 for one in found for _, ratio in one.changed)
