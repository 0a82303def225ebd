"""Answers to the exercises, right and wrong, and what is excused of mutants and saboteurs, with its reason.

They stand in ``tests/answers`` of a clone: a learner who looks into the installed course finds none. A wrong answer
whose behaviour a check compares others with is an example of its mistake, and in the course.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from course_lib.learn import exercises

__all__ = ["examples", "forbidden_answer", "means_nothing", "right_answers", "same_function"]

_TESTS = Path(__file__).resolve().parents[4] / "tests"


def right_answers(name: str) -> tuple[Any, ...]:
    """Right answers to the exercise of this name, of other styles than its solution's; empty when there are none.

    Those that readers wrote are among them: rows that are to pass.

    Raises:
        ValueError: This is no clone, so that no answers are at hand.
    """
    return (*_of(name, "RIGHT_ANSWERS", ()), *(row.answer for row in _rows(name) if row.verdict == "passed"))


def examples(name: str) -> Mapping[str, Any]:
    """By mistake of this exercise, an answer that makes it."""
    kept = {one.name: one.example for one in exercises.exercise(name).mistakes if one.example is not None}
    rows = {row.mistake: row.answer for row in _rows(name) if row.mistake}
    return {**rows, **kept, **getattr(_wrong(name), "EXAMPLES", {})}


def forbidden_answer(name: str) -> Any:
    """An answer to this exercise that is right by a call that is forbidden there; ``None`` when there is none."""
    return getattr(_wrong(name), "FORBIDDEN", None)


def same_function(name: str) -> Mapping[str, str]:
    """By mutant of this exercise's solution, as ``course bench judges`` calls it: why nobody could tell it apart."""
    return dict(_of(name, "SAME_FUNCTION", {}))


def means_nothing(name: str) -> Mapping[str, str]:
    """By saboteur, as ``course bench judges`` calls it: why what it spoils is no fault in this exercise."""
    return dict(_of(name, "MEANS_NOTHING", {}))


def _of(name: str, table: str, nothing: Any) -> Any:
    room = _imported(f"answers.lesson_{name[:2]}.right")
    return getattr(room, table, {}).get(name, nothing)


def _rows(name: str) -> list[Any]:
    """The rows of this exercise's table: answers that people wrote, each with its verdict."""
    tables = _imported("answer_table")
    return [row for found, path in tables.answer_files() if found == name for row in tables.rows_of(path)]


def _wrong(name: str) -> ModuleType | None:
    """The module of wrong answers to this exercise: ``EXERCISE`` there names it."""
    room = _imported(f"answers.lesson_{name[:2]}.wrong")
    if room is None:
        return None
    for found in pkgutil.iter_modules(room.__path__):
        module = importlib.import_module(f"{room.__name__}.{found.name}")
        if getattr(module, "EXERCISE", None) == name:
            return module
    return None


def _imported(room: str) -> Any:
    """A module of the tests' folders; ``None`` when there is none of this name."""
    if not (_TESTS / "answers").is_dir():
        raise ValueError(f"There is no {_TESTS / 'answers'}: answers are kept in a clone of the course alone.")
    for folder in (str(_TESTS), str(_TESTS / "support")):
        if folder not in sys.path:
            sys.path.append(folder)
    above = room.rpartition(".")[0]
    if (above and importlib.util.find_spec(above) is None) or importlib.util.find_spec(room) is None:
        return None
    return importlib.import_module(room)
