"""The judge of lesson 14: an attempt on the page's job, and what became of it as outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.judging.call_io import need_callable
from course_lib.learn.judging.failure import NotAnAnswer, NotAttempted
from course_lib.learn.sandbox.forbidden_names import mentions

if TYPE_CHECKING:
    from course_lib.capstone import Result

__all__ = ["SEED", "ByAttempt", "of_result"]

SEED = 7  # of the jobs on the page
_LOSS_SHARE = 1e-4  # of a loss: what float32 and another order of adding may make of it
_TRIES = 2  # more, of one that is late by the clock alone, which a busy machine makes longer


@dataclass(frozen=True)
class ByAttempt:
    """Tries an answer by an attempt on the job of this level, on as many ranks as the job has."""

    level: int
    has_own_limit: bool = True  # ranks have one of their own

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        from course_lib.capstone import attempt, job_for
        from course_lib.capstone.attempts.attempt_cache import right_before
        from course_lib.cluster.api.shared import shared_cluster

        need_callable(answer)
        if str(getattr(answer, "__module__", "")).startswith("course_lib.capstone"):
            raise NotAnAnswer("That function is the course's own. Give one that you have written.")
        if mentions(answer, forbidden):
            return Evidence((), answer)  # nobody need run it
        job = job_for(self.level, SEED)
        cluster = shared_cluster(job.ranks)

        def run(what: Any) -> Result:
            return attempt(job, what, cluster, show=False)

        result = right_before(job, answer) or run(answer)  # the page may have just run it
        if result.ended.startswith("not attempted"):
            raise NotAttempted
        return Evidence(of_result(result := _at_its_best(result, run, answer)), answer, facts={"result": result})


def _at_its_best(result: Result, run: Callable[[Any], Result], answer: Any) -> Result:
    """The attempt, unless it is late by the clock alone: then the quickest of several."""
    for _ in range(_TRIES):
        if result.paced_s is not None or result.step_s is None or result.step_s <= result.job.budget_s:
            break
        other = run(answer)
        if other.step_s is not None and (other.paced_s is not None or other.step_s < result.step_s):
            result = other
    return result


def of_result(result: Result) -> tuple[AnswerOutcome, ...]:
    """What was looked at, in order, up to where the run went."""
    case = f"{result.job.name}, {result.words}"

    def outcome(expected: str, difference: str) -> AnswerOutcome:
        return AnswerOutcome(case, expected, difference=difference)

    if result.ended:
        return (outcome("a run that comes to its end", result.ended),)
    broken = [f"{one.name}: {one.sentence.removesuffix('.')}" for one in result.faults]
    found = [outcome("no rule broken", "; ".join(broken))]
    values = result.values
    if values is not None:
        off = f"after all steps {values.where} is off by {values.share:.1e} of what training moves"
        found.append(outcome("the weights of one device", "" if values.are_equal else off))
        found.append(outcome("the losses of one device", _of_losses(values.losses, values.expected_losses)))
        found.append(outcome("the same losses on every rank", _of_ranks(values.told_by_ranks)))
    if result.counted_s is not None:
        found.append(outcome("a step within its budget", _of_time(result)))
    return tuple(found)


def _of_time(result: Result) -> str:
    """Empty for a step within its budget."""
    counted_s, budget_s = result.counted_s or 0.0, result.job.budget_s
    if counted_s <= budget_s:
        return ""
    by = "of computing and messages" if result.paced_s is not None else "by the clock"
    return f"a step takes {counted_s * 1e3:.0f} ms {by}, and the budget is {budget_s * 1e3:.0f} ms"


def _of_ranks(told: tuple[tuple[float, ...], ...]) -> str:
    """Empty where all ranks tell the losses of rank 0."""
    for rank, losses in enumerate(told):
        for number, (first, other) in enumerate(zip(told[0], losses, strict=True)):
            if not abs(first - other) <= _LOSS_SHARE * abs(first):
                return f"the loss of step {number + 1} is {first:.5g} on rank 0 and {other:.5g} on rank {rank}"
    return ""


def _of_losses(got: tuple[float, ...], expected: tuple[float, ...]) -> str:
    for number, (one, right) in enumerate(zip(got, expected, strict=False)):
        if not abs(one - right) <= _LOSS_SHARE * abs(right):
            return f"the loss of step {number + 1} is {one:.5g}, and one device has {right:.5g}"
    return ""
