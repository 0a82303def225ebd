"""The learner's own beside the course's: one run of the page, by both, where the learner has one to run.

A page asks ``mine.if_passed("MyDDP")`` for the learner's, which is None until a check has passed it, and hands it to
``mine.beside``. Who has built nothing sees the page as it is without either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from course_lib.base.text import first_line
from course_lib.learn.predictions.own_cost import COURSES, YOURS
from course_lib.mine.table import entry_of
from course_lib.mine.use import chosen, tell

__all__ = ["beside", "if_passed"]

R = TypeVar("R")


def if_passed(name: str) -> Any:
    """The learner's ``mine.NAME`` where a check has passed what stands in its file, and a line says so; else None.

    Nothing is said to who has not built it. Where theirs is kept and cannot be used now, the line says why. Raises
    ``ValueError`` for a name that the library does not have.
    """
    choice = chosen(entry_of(name))
    if choice.state != "not passed":
        tell(choice)
    return choice.function if choice.is_yours else None


def beside(run: Callable[[Any], R], courses: Any, yours: Any) -> dict[str, R]:
    """What ``run`` gives for the course's implementation and for the learner's: by "the course's" and "yours".

    ``yours`` is None where the learner has none; then only the course's is run. One of the learner's that fails, or
    that its ranks' time ends, is left out, and a sentence says why. An error of the course's own is raised.
    """
    found = {COURSES: run(courses)}
    if yours is not None:
        try:
            found[YOURS] = run(yours)
        except Exception as error:  # whatever a learner's version does, the page goes on
            print(f"Yours did not come to its end here, so the course's stands alone. {_with_kind(error)}")
    return found


def _with_kind(error: Exception) -> str:
    """Which error it was, in a line: its kind, and what its text begins with."""
    kind, said = type(error).__name__, first_line(error)
    return f"{kind}." if said == kind else f"{kind}: {said}"
