"""The answers to a quiz: which were tried, which are right, and what is said about each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.learn.records.store import record

__all__ = ["Answers"]


class Answers:
    """The questions of a lesson ("07") or of one of its parts ("10f"), and which have been answered right."""

    def __init__(self, lesson: str, questions: Sequence[Question]) -> None:
        self.lesson, self.questions = lesson, tuple(questions)
        self.tries = {question.name: 0 for question in self.questions}
        self.right: set[str] = set()

    def feedback(self, question: Question, choice: Any) -> str:
        """Count a try at ``question`` and say whether ``choice`` is right, or what it mixes up."""
        is_right = bool(choice == question.answer())
        self.tries[question.name] += 1
        record("quiz", f"{self.lesson[:2]}.{question.name}", right=is_right, tries=self.tries[question.name])
        if is_right:
            self.right.add(question.name)
            return f"✓ Right: {question.show(choice)}. {question.because}"
        mixed_up = question.misconceptions.get(choice, "Look at the lesson once more.")
        return f"✗ Not {question.show(choice)}. {mixed_up}"

    def standing(self) -> str:
        """How far the quiz is, in a sentence."""
        return f"{len(self.right)} of {len(self.questions)} questions answered right."
