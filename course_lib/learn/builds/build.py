"""What a build is: its steps in order, each an exercise of its own, and the name under which lessons run on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["Build"]


@dataclass(frozen=True, kw_only=True)
class Build:
    """One cell that a learner fills in steps. ``name`` is like "04.ddp"; ``steps`` are names of exercises, in order.

    A step demands what those before it demand, and one thing more: an answer that passes it has passed them all.
    ``entry`` is its name in the learner's own library (``mine.ENTRY``), from the step ``usable_from`` on.
    """

    name: str
    title: str
    steps: tuple[str, ...]
    entry: str
    usable_from: str

    def __post_init__(self) -> None:
        lesson, dot, rest = self.name.partition(".")
        if not (len(lesson) == 2 and lesson.isdigit() and dot and rest):
            raise ValueError(f'build {self.name!r}: use two digits, a dot and a word, such as "04.ddp"')
        if len(set(self.steps)) != len(self.steps) or len(self.steps) < 2:
            raise ValueError(f"build {self.name}: give at least two steps, each once; given are {self.steps}")
        strange = [step for step in self.steps if step.partition(".")[0] != lesson]
        if strange:
            raise ValueError(f"build {self.name}: step {strange[0]!r} is of another lesson; its name begins {lesson}.")
        if self.usable_from not in self.steps:
            raise ValueError(f"build {self.name}: usable from {self.usable_from!r}, which is none of its steps")

    @property
    def lesson(self) -> str:
        """The two digits of the lesson."""
        return self.name[:2]

    def number_of(self, step: str) -> int:
        """Which step it is, from 1. Raises ``ValueError`` for another exercise."""
        if step not in self.steps:
            raise ValueError(f"build {self.name} has no step {step!r}; it has {', '.join(self.steps)}")
        return self.steps.index(step) + 1

    def next_of(self, passed: Collection[str]) -> str | None:
        """The first step that has not passed; None once all have."""
        return next((step for step in self.steps if step not in passed), None)
