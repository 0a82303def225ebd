"""What the judges of this lesson have in common: no line of theirs passes for the learner's."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from course_lib.learn.compare import Compare, difference
from course_lib.learn.exercise import Evidence, Judge, Outcome, Raised

__all__ = ["Told", "counted", "same_tensor"]


@dataclass(frozen=True)
class Told:
    """A judge whose report quotes no line of ``files`` as the learner's, and which compares answers by ``compare``."""

    judge: Judge
    files: tuple[str, ...]
    compare: Compare = difference

    @property
    def world_sizes(self) -> tuple[int, ...]:
        return tuple(getattr(self.judge, "world_sizes", ()))

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        evidence = self.judge(answer, forbidden)
        return replace(evidence, outcomes=tuple(map(self._without_ours, evidence.outcomes)))

    def _without_ours(self, outcome: Outcome) -> Outcome:
        error = outcome.error
        if error is None or not self._is_ours(error):
            return outcome
        return replace(outcome, error=replace(error, line=None, source=""))

    def _is_ours(self, error: Raised) -> bool:
        """Whether the line that is quoted stands in one of our files."""
        if error.line is None:
            return False
        return any(linecache.getline(file, error.line).strip()[:120] == error.source for file in self.files)


def counted(number: int, thing: str) -> str:
    """A number of things in words: 1 rank, 2 ranks, 3 micro-batches."""
    plural = "es" if thing.endswith("ch") else "s"
    return f"{number} {thing}{'' if number == 1 else plural}"


def same_tensor(one: Any, other: Any) -> bool:
    """Whether two tensors, or two sequences of them, hold the same numbers."""
    if isinstance(one, Sequence):
        return len(one) == len(other) and all(map(same_tensor, one, other))
    return one.shape == other.shape and bool((one == other).all())
