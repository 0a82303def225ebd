"""14.three: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from answers.lesson_14.right.runs import by_the_course

EXERCISE = "14.three"
FORBIDDEN = by_the_course
