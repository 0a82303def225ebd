"""``quiz("07")``: the questions that close a lesson, their right answers computed when they are asked.

A part that comes after them has a quiz of its own: ``quiz("10f")``. A lesson's progress counts the questions of both.
Without a front end the questions are text, and ``quiz("07").answer("bytes", "b")`` answers one.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

from course_lib.forms.show import Shown, show
from course_lib.learn import exercises
from course_lib.learn.catalogue.quiz_spec import Question, lettered
from course_lib.learn.checks.hints import HintNote
from course_lib.learn.quizzes.answers import Answers

if TYPE_CHECKING:
    from course_lib.learn.quizzes.quiz_form import QuizForm

__all__ = ["Quiz", "quiz"]


class Quiz(Answers, Shown):
    """The questions of a lesson or of a part, shown as a form, or as text where there is no front end."""

    def answer(self, name: str, choice: Any) -> HintNote:
        """Answer the question ``name`` by a choice or its letter; shows and returns what is to be said about
        it.
        """
        question = next((q for q in self.questions if q.name == name), None)
        if question is None:
            raise ValueError(f"The quiz has no question {name!r}; it has {', '.join(self.tries)}.")
        note = HintNote(f"question {name}", self.feedback(question, _chosen(question, choice)))
        show(note)
        return note

    def form(self) -> QuizForm:
        from course_lib.learn.quizzes.quiz_form import QuizForm

        return QuizForm(self)

    def __repr__(self) -> str:
        what = "part" if self.lesson[2:] else "lesson"
        lines = [f"Quiz of {what} {self.lesson}, {len(self.questions)} questions."]
        for number, question in enumerate(self.questions, start=1):
            lines.append(f"{number}. {question.text}  [{question.name}]")
            lines += [f"   {text}" for text in lettered(question)]
        return "\n".join(lines)

    def _bundle(self) -> dict[str, Any]:
        return self.form().bundle(repr(self))


def quiz(lesson: str) -> Quiz:
    """Show the quiz of a lesson ("07"), or of a part that has its own ("10f"), and return it."""
    number, part = (lesson[:2], lesson[2:]) if isinstance(lesson, str) else (lesson, "")
    every = exercises.quiz_of(number)
    if not (questions := [question for question in every if question.part == part]):
        there_are = ", ".join(sorted({f'quiz("{number}{question.part}")' for question in every})) or "none"
        raise ValueError(f"{lesson!r} has no quiz. Lesson {number} has {there_are}.")
    found = Quiz(lesson, questions)
    show(found)
    return found


def _chosen(question: Question, choice: Any) -> Any:
    if choice in question.choices:
        return choice
    letters = string.ascii_lowercase[: len(question.choices)]
    if isinstance(choice, str) and len(choice) == 1 and choice.lower() in letters:
        return question.choices[letters.index(choice.lower())]
    raise ValueError(f"{choice!r} is no choice of question {question.name!r}; give a letter from a to {letters[-1]}.")
