"""One question as it is asked on the start page, and how an answer that was typed is judged."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.base.foreign_text import one_line
from course_lib.learn import exercises

__all__ = ["AskedItem", "of_quiz", "order_of", "place_of"]


@dataclass(frozen=True)
class AskedItem:
    """A question: its text, its choices (none: a number in ``unit``), and what judges a typed answer.

    ``judge(text)`` says whether it is right, with a sentence, and raises ``ValueError`` for what is no answer.
    ``is_order``: the choices are put in order, their letters one after the other.
    """

    name: str
    text: str
    choices: tuple[str, ...]
    unit: str
    judge: Callable[[str], tuple[bool, str]]
    is_order: bool = False

    @property
    def how(self) -> str:
        """How it is answered by keyboard."""
        last = string.ascii_lowercase[len(self.choices) - 1]
        if self.is_order:
            return f"Type the letters from a to {last} in their order."
        if self.choices:
            return f"Type a letter from a to {last}."
        return f"Type a number{f' in {self.unit}' if self.unit else ''}."

    def lines(self) -> list[str]:
        """The question and its lettered choices as lines of text."""
        letters = zip(string.ascii_lowercase, self.choices, strict=False)
        return [self.text, *(f"   {letter}) {choice}" for letter, choice in letters)]


def of_quiz(lesson: str, name: str) -> AskedItem:
    """A question of a lesson's quiz. A wrong answer is told what it mixes up, and not the right one.

    Raises ``ValueError`` for a lesson or a question that there is not.
    """
    question = next((one for one in exercises.quiz_of(lesson) if one.name == name), None)
    if question is None:
        raise ValueError(f"the quiz of lesson {lesson} has no question {name!r}")
    shown = tuple(question.show(choice) for choice in question.choices)

    def judge(text: str) -> tuple[bool, str]:
        choice = question.choices[place_of(text, shown)]
        if choice == question.answer():
            return True, f"✓ Right: {question.show(choice)}. {question.because}"
        return False, f"✗ Not {question.show(choice)}. {question.misconceptions.get(choice, '')}".rstrip()

    return AskedItem(f"{lesson}.{question.name}", question.text, shown, "", judge)


def place_of(text: str, choices: Sequence[str]) -> int:
    """Which choice was typed, by its letter or its text. Raises ``ValueError`` for neither."""
    given = text.strip().rstrip(").").casefold()
    letters = string.ascii_lowercase[: len(choices)]
    if len(given) == 1 and given in letters:
        return letters.index(given)
    folded = [choice.casefold() for choice in choices]
    if text.strip().casefold() in folded:
        return folded.index(text.strip().casefold())
    raise ValueError(f"{one_line(text, 40)!r} is no choice; type a letter from a to {letters[-1]}.")


def order_of(text: str, choices: Sequence[str]) -> list[str]:
    """The choices in the order of the letters that were typed. Raises ``ValueError`` where one is missing or twice."""
    letters = string.ascii_lowercase[: len(choices)]
    given = "".join(sign for sign in text.casefold() if sign.isalnum())
    if sorted(given) != sorted(letters):
        raise ValueError(f"{one_line(text, 40)!r} is no order; type each letter from a to {letters[-1]} once.")
    return [choices[letters.index(letter)] for letter in given]
