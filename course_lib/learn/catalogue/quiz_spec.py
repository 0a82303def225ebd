"""What a quiz question is: a text, choices, a function that computes the right one, and a sentence for each
wrong one.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Question", "lettered"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question of a lesson's quiz; ``name`` is a short word, unique in its lesson.

    ``part`` is the letter of a part that comes after the lesson's quiz: that part has a quiz of its own, and asks it
    there. ``answer()`` computes the right choice (one of ``choices``, by ``==``). ``misconceptions`` holds a
    sentence for every wrong choice that says what a person who picks it has mixed up; ``because`` explains
    the right one. ``show(choice)`` gives its text (units included).

        Question(
            name="bytes",
            text="A model of 1 million parameters is trained with Adam in float32. How much do weights and
            state take?", choices=(4_000_000, 8_000_000, 12_000_000),
            answer=lambda: 1_000_000 * 4 * (1 + 2),
            show=lambda n: f"{n / 1e6:.0f} MB",
            misconceptions={4_000_000: "That is the weights alone ...", 8_000_000: "Adam keeps two numbers
            ..."}, because="Adam keeps two numbers beside each weight: three times four bytes.",
        )
    """

    name: str
    text: str
    choices: Sequence[Any]
    answer: Callable[[], Any]
    misconceptions: Mapping[Any, str]
    because: str
    show: Callable[[Any], str] = str
    part: str = ""

    def __post_init__(self) -> None:
        if len(self.choices) < 2:
            raise ValueError(f"question {self.name!r} has {len(self.choices)} choices; it needs two at least")
        strangers = [choice for choice in self.misconceptions if choice not in self.choices]
        if strangers:
            raise ValueError(f"question {self.name!r}: {strangers} have a sentence but are not among its choices")


def lettered(question: Question) -> list[str]:
    """The choices as texts with their letters: "a) 4 MB"."""
    letters = string.ascii_lowercase
    return [f"{letter}) {question.show(c)}" for letter, c in zip(letters, question.choices, strict=False)]
