"""What a problem on paper is: a function that draws its numbers, and gives its text, its answer and the way to it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["PaperProblem", "Posed", "Wrong", "problem"]

_APART = 0.12  # a slip that comes so near the answer, with these numbers, is not told from it


@dataclass(frozen=True)
class Wrong:
    """A usual wrong answer with these numbers, in the problem's unit, and what whoever gives it has mixed up."""

    value: float
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Posed:
    """A problem with its numbers. ``value`` is the answer in the problem's unit.

    ``way``: the steps to it, a sentence each, with the numbers. ``sources``: where each constant comes from.
    ``beside``: what somebody has measured at that size, with its source; "" where nothing is known.
    """

    text: str
    value: float
    way: tuple[str, ...]
    slips: tuple[Wrong, ...] = ()
    sources: tuple[str, ...] = ()
    beside: str = ""

    def slip_of(self, value: float) -> Wrong | None:
        """The usual wrong answer that this is, to 2 %, where it stands apart from the right one."""
        for slip in self.slips:
            is_apart = not math.isclose(slip.value, self.value, rel_tol=_APART)
            if is_apart and math.isclose(value, slip.value, rel_tol=0.02):
                return slip
        return None


@dataclass(frozen=True)
class PaperProblem:
    """A problem at real size. ``name`` begins with the lesson ("04.gradients"); ``unit`` is what is asked for.

    ``make(random)`` draws numbers and solves with them, and draws the same from a generator in the same state.
    """

    name: str
    title: str
    unit: str
    make: Callable[[random.Random], Posed] = field(repr=False)

    def drawn(self, seed: int) -> Posed:
        """With the numbers of this seed."""
        return self.make(random.Random(f"{self.name} {seed}"))


def problem(name: str, title: str, *, unit: str) -> Callable[[Callable[[random.Random], Posed]], PaperProblem]:
    """Make a problem of the function below.

    @problem("04.sent", "What a rank sends", unit="GB")
    def _sent(draw):
        num_ranks = draw.choice((8, 16, 64))
        ...
        return Posed(text=..., value=..., way=(...), slips=(...), sources=(...))
    """
    return lambda make: PaperProblem(name, title, unit, make)
