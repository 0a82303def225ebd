"""The exercises, predictions and quizzes of every lesson: a room ``lesson_NN`` each.

An exercise is a file there, or, where it is more than one idea, a folder: ``dispatch/__init__.py`` holds the exercise,
``cases`` what it is tried with, ``trial`` how, ``mistakes`` how a usual mistake is told from others. What several of a
lesson's exercises use stands beside them.

A room offers ``EXERCISES: tuple[Exercise, ...]``, and may offer ``PREDICTIONS: tuple[Asked, ...]`` (what is asked
before a run, and told after it) and ``QUIZ: tuple[Question, ...]`` (of the lesson, and of parts that come after its
quiz); it is loaded when it is first asked for. Problems on paper stand in its ``problems``. Right answers are kept
beside the tests, in ``tests/answers``.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.catalogue.prediction_spec import Asked
from course_lib.learn.catalogue.problem_spec import PaperProblem
from course_lib.learn.catalogue.quiz_spec import Question

__all__ = [
    "exercise",
    "exercises_of",
    "lesson_numbers",
    "prediction",
    "predictions_of",
    "problems_of",
    "quiz_of",
]


@cache  # every question and every check asks for them: to look at the disk each time took a millisecond
def lesson_numbers() -> tuple[str, ...]:
    """The lessons that have a room here, as two digits, in order. Imports none of them."""
    names = (re.fullmatch(r"lesson_(\d\d)", module.name) for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(match.group(1) for match in names if match))


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """The exercises of a lesson ("07"), in order."""
    return tuple(_module(lesson).EXERCISES)


def quiz_of(lesson: str) -> tuple[Question, ...]:
    """The quiz questions of a lesson ("07"), in order; empty when it has none."""
    return tuple(getattr(_module(lesson), "QUIZ", ()))


def predictions_of(lesson: str) -> tuple[Asked, ...]:
    """The predictions of a lesson ("07"), in order; empty when it has none."""
    return tuple(getattr(_module(lesson), "PREDICTIONS", ()))


def problems_of(lesson: str) -> tuple[PaperProblem, ...]:
    """The problems on paper of a lesson ("07"), in order; empty when it has none."""
    name = f"{_module(lesson).__name__}.problems"
    return tuple(importlib.import_module(name).PROBLEMS) if importlib.util.find_spec(name) else ()


def exercise(name: str) -> Exercise:
    """The exercise of this name ("07.split"). Raises ``ValueError`` that names the nearest one."""
    return _named(name, "exercise", exercises_of)


def prediction(name: str) -> Asked:
    """The prediction of this name ("07.four"). Raises ``ValueError`` that names the nearest one."""
    return _named(name, "prediction", predictions_of)


def _named(name: str, what: str, of_lesson: Callable[[str], tuple[Any, ...]]) -> Any:
    lesson = name[:2] if isinstance(name, str) else ""
    found = {one.name: one for one in of_lesson(lesson)} if lesson in lesson_numbers() else {}
    if isinstance(name, str) and name in found:
        return found[name]
    every = [one.name for number in lesson_numbers() for one in of_lesson(number)]
    near = difflib.get_close_matches(str(name), every, n=1, cutoff=0.4)
    rule = f'Did you mean "{near[0]}"?' if near else f"There are: {', '.join(every) or 'none yet'}."
    raise ValueError(f"There is no {what} {name!r}. {rule}")


def _module(lesson: str) -> ModuleType:
    if lesson not in lesson_numbers():
        known = ", ".join(lesson_numbers()) or "none yet"
        raise ValueError(f"There is no lesson {lesson!r} with exercises; a lesson is two digits, one of: {known}.")
    return importlib.import_module(f"{__name__}.lesson_{lesson}")
