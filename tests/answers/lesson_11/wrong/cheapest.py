"""11.cheapest: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_11.cheapest import cheapest_row


def by_the_judge(*plan: Any) -> Any:
    """Right, by what the judge compares with."""
    return cheapest_row(*plan)


EXERCISE = "11.cheapest"
FORBIDDEN = by_the_judge
