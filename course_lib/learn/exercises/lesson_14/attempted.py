"""The judge of lesson 14: an attempt on the page's job, and what became of it as outcomes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.learn.exercise import Evidence, Outcome
from course_lib.learn.failure import NotAnAnswer, NotAttempted
from course_lib.learn.given import need_callable
from course_lib.learn.mentions import mentions

if TYPE_CHECKING:
    from course_lib.capstone import Result

__all__ = ["SEED", "ByAttempt", "of_result"]

SEED = 7  # of the jobs on the page
_AS_LATE = 2.0  # times what the course's own solution takes at the same moment
_AIR = 1.5  # times the budget, for one that should be in time
_TRIES = 2  # of one that is late for no reason that can be seen


@dataclass(frozen=True)
class ByAttempt:
    """Tries an answer by an attempt on the job of this level, on as many ranks as the job has."""

    level: int
    has_own_limit: bool = True  # ranks have one of their own

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        from course_lib.capstone import attempt, job_for, reference
        from course_lib.capstone.last import right_before
        from course_lib.cluster import shared_cluster

        need_callable(answer)
        if str(getattr(answer, "__module__", "")).startswith("course_lib.capstone"):
            raise NotAnAnswer("That is the course's own. Give a function that you have written.")
        if mentions(answer, forbidden):
            return Evidence((), answer)  # nobody need run it
        job = job_for(self.level, SEED)
        cluster = shared_cluster(job.ranks)

        def run(what: Any) -> Result:
            return attempt(job, what, cluster, show=False)

        result = right_before(job, answer) or run(answer)  # the page may have just run it
        if result.ended.startswith("not attempted"):
            raise NotAttempted
        result, limit_s = _at_its_best(result, lambda: run(answer), lambda: run(reference(job)))
        return Evidence(of_result(result, limit_s), answer, facts={"result": result})


def _at_its_best(
    result: Result, again: Callable[[], Result], beside: Callable[[], Result]
) -> tuple[Result, float]:
    """An attempt and the limit of its step in seconds. Who is over the budget is slow, or the machine is busy.

    Slow is one that would be late on a quiet machine, too. One that would be in time there has some air. Beyond it, a
    run is late only if it is in each of several tries and beside the course's own solution.
    """
    quiet_s, limit_s = _quiet_s(result), result.job.budget_s
    if quiet_s is not None and quiet_s <= limit_s:
        limit_s *= _AIR
    for _ in range(_TRIES):
        if result.step_s is None or result.step_s <= limit_s or (quiet_s or 0.0) > limit_s:
            break
        limit_s = max(limit_s, _AS_LATE * (beside().step_s or 0.0))
        if result.step_s > limit_s:
            other = again()
            if other.step_s is not None and other.step_s < result.step_s:
                result = other
    return result, limit_s


def _quiet_s(result: Result) -> float | None:
    """What a step should take where nothing else runs: by its mesh, and by how often it has computed each row.

    None for a run that tells no mesh, or one on which the course would not put the model.
    """
    from course_lib.capstone.expected import expected

    if result.mesh is None:
        return None
    with suppress(ValueError):
        return max(1.0, result.computed) * expected(result.job.job, result.mesh).real_s
    return None


def of_result(result: Result, limit_s: float) -> tuple[Outcome, ...]:
    """What was looked at, in order, up to where the run went."""
    case = f"{result.job.name}, {result.words}"

    def outcome(expected: str, difference: str) -> Outcome:
        return Outcome(case, expected, difference=difference)

    if result.ended:
        return (outcome("a run that comes to its end", result.ended),)
    found = [outcome("no rule broken", "; ".join(f"{one.name}: {one.sentence}" for one in result.faults))]
    values = result.values
    if values is not None:
        off = f"after all steps {values.where} is off by {values.share:.1e} of what training moves"
        found.append(outcome("the weights of one device", "" if values.are_equal else off))
        found.append(outcome("the losses of one device", _of_losses(values.losses, values.expected_losses)))
    if result.step_s is not None:
        late = (
            f"a step took {result.step_s * 1e3:.0f} ms, and the budget is {result.job.budget_s * 1e3:.0f} ms"
        )
        found.append(outcome("a step within its budget", "" if result.step_s <= limit_s else late))
    return tuple(found)


def _of_losses(got: tuple[float, ...], expected: tuple[float, ...]) -> str:
    for number, (one, right) in enumerate(zip(got, expected, strict=False)):
        if not abs(one - right) <= 1e-4 * abs(right):
            return f"the loss of step {number + 1} is {one:.5g}, and one device has {right:.5g}"
    return ""
