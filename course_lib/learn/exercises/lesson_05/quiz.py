"""The quiz of lesson 05; right answers come from the cost model."""

from __future__ import annotations

from course_lib.learn.questions import Question

__all__ = ["QUIZ"]

QUIZ: tuple[Question, ...] = ()
