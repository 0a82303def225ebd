"""In a process of its own: hand in answers to one exercise, one after the other, and report each verdict."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from course_lib.authoring.bench.judging import kept_answers
from course_lib.authoring.bench.judging.mutants import FOR_EVER, mutants_of
from course_lib.authoring.bench.judging.saboteurs import SABOTEURS, Saboteur, sabotaged
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.checks.reference import Solution, run_solution, solution_of

__all__ = ["NOTHING_TO_SPOIL", "hand_in"]


NOTHING_TO_SPOIL = "nothing to spoil"  # the status of a saboteur that found nothing in this answer


def hand_in(name: str, start: int, kinds: Collection[str], only: str, line: Connection) -> None:
    """Send ``(number, kind, what, status)`` for each answer from number ``start`` on, and once before it is tried.

    ``kind`` is one of ``kinds``, "right", "mutant" or "saboteur", or at last "end"; ``status`` is empty before the
    trial, and then the verdict's.
    """
    warnings.simplefilter("ignore")
    exercise = exercises.exercise(name)
    with contextlib.closing(line), tempfile.TemporaryDirectory(prefix="saboteur-") as folder:
        for number, (kind, what, answer) in enumerate(_answers(name, only, Path(folder))):
            if number < start or kind not in kinds:
                continue
            line.send((number, kind, what, ""))
            line.send((number, kind, what, _status(exercise, answer)))
        line.send((0, "end", "", ""))


def _status(exercise: Any, answer: Callable[[], Any]) -> str:
    try:
        given = answer()
    except Exception:
        return "no answer"  # its cell fails, so that there is nothing to hand in
    if given is None:
        return NOTHING_TO_SPOIL
    status = judged(exercise, given).status
    noted = getattr(answer, "noted", None)
    return NOTHING_TO_SPOIL if status == "passed" and noted is not None and not noted.exists() else status


@dataclass(frozen=True)
class _Sabotaged:
    """``noted`` is there once the saboteur has spoilt something."""

    saboteur: Saboteur
    right: Callable[[], Any]
    noted: Path

    def __call__(self) -> Any:
        return sabotaged(self.saboteur, self.right(), self.noted)


def _right_answers(name: str, solution: Solution) -> dict[str, Callable[[], Any]]:
    found = {"the solution": partial(run_solution, solution.tree, solution.answer, filename="<solution>")}
    for place, answer in enumerate(kept_answers.right_answers(name), start=1):
        found[getattr(answer, "__name__", f"number {place}")] = partial(_itself, answer)
    return found


def _answers(name: str, only: str, folder: Path) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    solution = solution_of(name)
    right = _right_answers(name, solution)
    for what, answer in right.items():
        yield "right", what, answer
    number = 0
    for what, answer in right.items():
        for saboteur in SABOTEURS.values():
            number += 1
            if only in f"{saboteur.name}: {what}":
                yield "saboteur", f"{saboteur.name}: {what}", _Sabotaged(saboteur, answer, folder / f"{number}")
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
