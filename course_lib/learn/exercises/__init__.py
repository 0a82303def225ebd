"""The exercises and quizzes of every lesson: a room ``lesson_NN`` each, with one file an exercise.

A room offers ``EXERCISES: tuple[Exercise, ...]`` and may offer ``QUIZ: tuple[Question, ...]``; it is loaded when it is
first asked for. What several exercises of a lesson try is in its ``tries.py``.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from types import ModuleType

from course_lib.learn.exercise import Exercise
from course_lib.learn.questions import Question

__all__ = ["exercise", "exercises_of", "lesson_numbers", "quiz_of"]


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


def exercise(name: str) -> Exercise:
    """The exercise of this name ("07.split"). Raises ``ValueError`` that names the nearest one."""
    lesson = name[:2] if isinstance(name, str) else ""
    found = {one.name: one for one in exercises_of(lesson)} if lesson in lesson_numbers() else {}
    if isinstance(name, str) and name in found:
        return found[name]
    every = [one.name for number in lesson_numbers() for one in exercises_of(number)]
    near = difflib.get_close_matches(str(name), every, n=1, cutoff=0.4)
    rule = f'Did you mean "{near[0]}"?' if near else f"There are: {', '.join(every) or 'none yet'}."
    raise ValueError(f"There is no exercise {name!r}. {rule}")


def _module(lesson: str) -> ModuleType:
    if lesson not in lesson_numbers():
        known = ", ".join(lesson_numbers()) or "none yet"
        raise ValueError(
            f"There is no lesson {lesson!r} with exercises; a lesson is two digits, one of: {known}."
        )
    return importlib.import_module(f"{__name__}.lesson_{lesson}")
