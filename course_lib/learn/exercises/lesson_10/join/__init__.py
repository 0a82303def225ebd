"""10.join: what queries have found at some keys, and at some others, made into what they find at both."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_10.join import mistakes, wrong_answers
from course_lib.learn.exercises.lesson_10.join.cases import CASES
from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.judge import by_cases

__all__ = ["JOIN"]


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _compare(expected: Any, got: Any) -> str:
    if not (_is_pair(expected) and all(isinstance(one, Tensor) for one in expected)):
        return difference(expected, got)  # of two wrong answers
    if not _is_pair(got):
        return difference(expected, got) if got is None else f"expected a pair, (out, lse), got {short(got)}"
    for name, want, have in zip(("out", "lse"), expected, got, strict=True):
        if said := difference(want, have, relative=1e-9, absolute=1e-11):
            return f"{name}: {said}"
    return ""


JOIN = Exercise(
    name="10.join",
    title="Two partial results, joined",
    judge=by_cases(CASES, compare=_compare),
    mistakes=mistakes.MISTAKES,
    hints=(
        "exp(lse) is the sum by which a side's output was divided. What are the two sums together, and what share of "
        "that has each side? Then: which of these steps cannot be done with an lse of 1000?",
        "A side's output counts with its share of both sums, exp(lse of the side - lse of both). Take the larger of "
        "the two lse off before exp, and put it back after log; `torch.logaddexp` does so. Where neither side saw a "
        "key, you would take minus infinity from minus infinity: let something finite stand for what you take off.",
        "`both = torch.logaddexp(lse1, lse2)`; `base = both.masked_fill(both == -torch.inf, 0.0)`; each share is "
        "`(lse1 - base).exp().unsqueeze(-1)`, and the output the sum of share times out.",
    ),
    forbidden=("course_lib.parallel.context.RunningAttention",),
    forbidden_example=wrong_answers.by_the_library,
    passed="Both sides together are one softmax over all their keys: for scores of 1000 and of -1000, where one side "
    "outweighs the other, and where a side saw no key, or neither did.",
)
