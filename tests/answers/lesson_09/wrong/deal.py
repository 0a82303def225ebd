"""09.deal: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_09.deal import _neighbours_alike

EXERCISE = "09.deal"
EXAMPLES: dict[str, Any] = {
    "order-taken-for-granted": _neighbours_alike,
}
