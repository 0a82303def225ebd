"""The right answers that are kept beside the tests, and what is excused of mutants and saboteurs, with its reason.

They stand in ``tests/answers/lesson_NN/right`` of a clone: a learner who looks into the installed course finds none.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["means_nothing", "right_answers", "same_function"]

_TESTS = Path(__file__).resolve().parents[4] / "tests"


def right_answers(name: str) -> tuple[Any, ...]:
    """Right answers to the exercise of this name, of other styles than its solution's; empty when there are none.

    Raises:
        ValueError: This is no clone, so that no answers are at hand.
    """
    return tuple(_of(name, "RIGHT_ANSWERS", ()))


def same_function(name: str) -> Mapping[str, str]:
    """By mutant of this exercise's solution, as ``course bench judges`` calls it: why nobody could tell it apart."""
    return dict(_of(name, "SAME_FUNCTION", {}))


def means_nothing(name: str) -> Mapping[str, str]:
    """By saboteur, as ``course bench judges`` calls it: why what it spoils is no fault in this exercise."""
    return dict(_of(name, "MEANS_NOTHING", {}))


def _of(name: str, table: str, nothing: Any) -> Any:
    if not (_TESTS / "answers").is_dir():
        raise ValueError(f"There is no {_TESTS / 'answers'}: right answers are kept in a clone of the course alone.")
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))
    room = f"answers.lesson_{name[:2]}"
    if importlib.util.find_spec(room) is None or importlib.util.find_spec(f"{room}.right") is None:
        return nothing
    return getattr(importlib.import_module(f"{room}.right"), table, {}).get(name, nothing)
