"""Is an answer right, and if not, what is to be said about it."""

from __future__ import annotations

import math

from course_lib.learn.catalogue.problem_spec import Posed
from course_lib.learn.paper.typed import said

__all__ = ["NEAR", "is_right", "sentence_on"]

NEAR = 0.05  # of the right answer
_POWERS = tuple(1000.0**power for power in (-4, -3, -2, -1, 1, 2, 3, 4))


def is_right(drawn: Posed, value: float) -> bool:
    """Within 5 %, that included."""
    return abs(value - drawn.value) <= NEAR * abs(drawn.value) * (1 + 1e-9)


def sentence_on(drawn: Posed, value: float, unit: str) -> str:
    """What is to be said about an answer in ``unit``; about a wrong one, without the right one."""
    if is_right(drawn, value):
        return f"✓ Right: {said(drawn.value, unit)}."
    head = f"✗ Not {said(value, unit)}."
    if not value > 0:
        return f"{head} The answer is above zero."
    slip = drawn.slip_of(value)
    if slip is not None:
        return f"{head} {slip.sentence}"
    factor = value / drawn.value
    if any(math.isclose(factor, power, rel_tol=NEAR) for power in _POWERS):
        return f"{head} The digits are right, and the power of ten is not: look at the units."
    if unit == "%" and math.isclose(factor, 0.01, rel_tol=NEAR):
        return f"{head} The answer is asked for in per cent: a quarter is 25."
    return f"{head} That is too {'much' if factor > 1 else 'little'}, {_by(max(factor, 1 / factor))}."


def _by(factor: float) -> str:
    if factor < 2:
        return "by less than a factor of two"
    return "by a factor between two and ten" if factor < 10 else "by a factor of more than ten"
