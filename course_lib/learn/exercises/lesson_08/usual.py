"""Mistakes that every exercise of lesson 08 knows: they show in how an answer left things, not in what it gave."""

from __future__ import annotations

from typing import Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Mistake
from course_lib.learn.exercises.lesson_08.judging import CLOSE
from course_lib.learn.exercises.lesson_08.step import NO_GRADIENT
from course_lib.learn.exercises.lesson_08.tries import UNWAITED

__all__ = ["differs_in", "no_way_back", "not_waited"]


def differs_in(outcome: AnswerOutcome, *names: str) -> bool:
    """Whether the first entry of a report that differs is one of these."""
    got, expected = outcome.got, outcome.expected
    if outcome.error is not None or not isinstance(got, dict):
        return False
    return next((name for name in expected if name in got and CLOSE(expected[name], got[name])), "") in names


def not_waited(example: Any) -> Mistake:
    """An ``async_op=True`` without a ``wait()``; whether the numbers came right is chance."""
    return Mistake(
        "not-waited",
        "A collective was begun with `async_op=True`, and nobody waited for it. It goes on while your code runs on, "
        "so the numbers in its tensor at that moment are chance, even where they came right here. Keep what `dist` "
        "returns and call its `wait()` before the tensor is used.",
        example,
        lambda evidence: evidence.error is None and any("never waited" in o.got[UNWAITED] for o in evidence.wrong),
    )


def no_way_back(example: Any, output: str, *names: str) -> Mistake:
    """Right forward, and none of the gradients of these names comes."""

    def recognise(evidence: Evidence) -> bool:
        return all(differs_in(o, *names) for o in evidence.wrong) and all(
            o.got[name] == NO_GRADIENT for o in evidence.outcomes for name in names
        )

    return Mistake(
        "no-way-back",
        f"The {output} is right, and no gradient came to what went in. Autograd has lost the way back: no gradient "
        "passes a `.detach()`, `.data`, `torch.no_grad()` or a plain `dist.all_gather`.",
        example,
        recognise,
    )
