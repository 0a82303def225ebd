"""What the judges of this lesson have in common: no line of theirs passes for the learner's."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
    ready_made: Mapping[str, str] = field(
        default_factory=dict
    )  # further forbidden names, and what to call them

    @property
    def world_sizes(self) -> tuple[int, ...]:
        return tuple(getattr(self.judge, "world_sizes", ()))

    @property
    def has_own_limit(self) -> bool:
        return bool(getattr(self.judge, "has_own_limit", False))

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        more = tuple(name for name in self.ready_made if _is_loaded(name)) if forbidden else ()
        evidence = self.judge(answer, (*forbidden, *more))
        called = tuple(sorted({self.ready_made.get(name, name) for name in evidence.called}))
        outcomes = tuple(map(self._without_ours, evidence.outcomes))
        return replace(evidence, outcomes=outcomes, called=called)

    def _without_ours(self, outcome: Outcome) -> Outcome:
        error = outcome.error
        if error is None:
            return outcome
        error = replace(error, story=self._story(error.story))
        return replace(outcome, error=replace(error, line=None, source="") if self._is_ours(error) else error)

    def _story(self, story: str) -> str:
        """A report of ranks without the places in our files."""
        names = "|".join(re.escape(Path(file).name) for file in self.files)
        without_frames = re.sub(rf"(?m)^ *(?:{names}), line \d+, in .*\n.*(?:\n|$)", "", story)
        return re.sub(rf",? at (?:{names}), line \d+, in \w+", "", without_frames)

    def _is_ours(self, error: Raised) -> bool:
        """Whether the line that is quoted stands in one of our files."""
        if error.line is None:
            return False
        return any(linecache.getline(file, error.line).strip()[:120] == error.source for file in self.files)


def _is_loaded(name: str) -> bool:
    """Whether the package of a name is there already: nobody waits for an import that no answer has asked for."""
    package = name.rpartition(".")[0]
    return package in sys.modules or package.startswith("course_lib.")


def counted(number: int, thing: str) -> str:
    """A number of things in words: 1 rank, 2 ranks, 3 micro-batches."""
    plural = "es" if thing.endswith("ch") else "s"
    return f"{number} {thing}{'' if number == 1 else plural}"


def same_tensor(one: Any, other: Any) -> bool:
    """Whether two tensors, or two sequences of them, hold the same numbers."""
    if isinstance(one, Sequence):
        return len(one) == len(other) and all(map(same_tensor, one, other))
    return one.shape == other.shape and bool((one == other).all())
