"""10.join: what queries have found at some keys, and at some others, made into what they find at both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence, Exercise
from course_lib.learn.exercises.lesson_10.join import mistakes, slips
from course_lib.learn.exercises.lesson_10.join.cases import CASES
from course_lib.learn.exercises.lesson_10.join.forms import FORMS, compare, with_a_third, with_gradients
from course_lib.learn.judging.compare import Compare
from course_lib.learn.judging.judge import by_cases

__all__ = ["JOIN"]


@dataclass(frozen=True)
class _ThenInOtherForms:
    """By its numbers; where all are right, by dtype, layout, gradients, and by what a next call does to them."""

    compare: Compare = compare

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        evidence = by_cases(CASES, compare=compare)(answer, forbidden)
        if not evidence.passed:
            return evidence
        more = (by_cases(FORMS, compare=compare), with_gradients, with_a_third)
        outcomes = [outcome for judge in more for outcome in judge(answer, forbidden).outcomes]
        return replace(evidence, outcomes=(*evidence.outcomes, *outcomes))


JOIN = Exercise(
    name="10.join",
    title="Two partial results, joined",
    judge=_ThenInOtherForms(),
    mistakes=(slips.KEPT, *mistakes.MISTAKES, *slips.MISTAKES),
    hints=(
        "exp(lse) is the sum by which a side's output was divided. What is the total of the two sums, and which share "
        "of it does each side have? Then: which of these steps cannot be done with an lse of 1000?",
        "A side's output counts with its share of both sums, exp(lse of the side - lse of both). Subtract the "
        "larger of the two lse before exp, and add it again after log; `torch.logaddexp` does so. Where neither "
        "side saw a key, you would subtract minus infinity from minus infinity: subtract something finite there.",
        "`both = torch.logaddexp(lse1, lse2)`; `base = both.masked_fill(both == -torch.inf, 0.0)`; each share is "
        "`(lse1 - base).exp().unsqueeze(-1)`, and the output the sum of share times out.",
    ),
    forbidden=("course_lib.parallel.context.RunningAttention",),
    passed="Both sides together are one softmax over all their keys. That holds for scores of 1000 and of -1000, "
    "where one side outweighs the other, and where one side or both saw no key. float32 stays float32, gradients "
    "reach both sides, and a third side can be joined.",
)
