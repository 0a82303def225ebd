"""In a process of its own: hand in answers to one exercise, one after the other, and report each verdict."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from course_lib.authoring.bench.judging.mutants import FOR_EVER, mutants_of
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.checks.reference import run_solution, solution_of

__all__ = ["hand_in"]


def hand_in(name: str, start: int, only: str, line: Connection) -> None:
    """Send ``(number, kind, what, status)`` for each answer from number ``start`` on, and once before it is tried.

    ``kind`` is "right", "mutant", or at last "end"; ``status`` is empty before the trial, and then the verdict's.
    """
    warnings.simplefilter("ignore")
    exercise = exercises.exercise(name)
    with contextlib.closing(line):
        for number, (kind, what, answer) in enumerate(_answers(name, only)):
            if number < start:
                continue
            line.send((number, kind, what, ""))
            line.send((number, kind, what, _status(exercise, answer)))
        line.send((0, "end", "", ""))


def _status(exercise: Any, answer: Callable[[], Any]) -> str:
    try:
        given = answer()
    except Exception:
        return "no answer"  # its cell fails, so that there is nothing to hand in
    return judged(exercise, given).status


def _answers(name: str, only: str) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    solution = solution_of(name)
    yield (
        "right",
        "the solution",
        partial(run_solution, solution.tree, solution.answer, filename="<solution>"),
    )
    for place, answer in enumerate(exercises.right_answers(name), start=1):
        yield "right", getattr(answer, "__name__", f"number {place}"), partial(_itself, answer)
    on_ranks = bool(exercises.exercise(name).world_sizes)  # each call sends the answer anew: it remembers nothing
    for place, mutant in enumerate(mutants_of(solution)):
        if only in mutant.what and not (on_ranks and mutant.what.endswith(FOR_EVER)):
            filename = f"<mutant {place} of {name}>"
            yield (
                "mutant",
                mutant.what,
                partial(run_solution, mutant.tree, solution.answer, filename=filename),
            )


def _itself(answer: Any) -> Any:
    return answer
