"""What the judges of this lesson have in common: how answers are compared, and what is ready-made besides."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence, Judge
from course_lib.learn.judging.compare import Compare, difference

__all__ = ["ExplainedEvidence", "same_tensor"]


@dataclass(frozen=True)
class ExplainedEvidence:
    """A judge that compares answers by ``compare``, and knows further ready-made answers."""

    judge: Judge
    compare: Compare = difference
    ready_made: Mapping[str, str] = field(default_factory=dict)  # further forbidden names, and what to call them

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
        return replace(evidence, called=called)


def _is_loaded(name: str) -> bool:
    """Whether the package of a name is there already: nobody waits for an import that no answer has asked for."""
    package = name.rpartition(".")[0]
    return package in sys.modules or package.startswith("course_lib.")


def same_tensor(one: Any, other: Any) -> bool:
    """Whether two tensors, or two sequences of them, hold the same numbers."""
    if isinstance(one, Sequence):
        return len(one) == len(other) and all(map(same_tensor, one, other))
    return one.shape == other.shape and bool((one == other).all())
