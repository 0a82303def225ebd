"""10.room: how many tokens an expert takes, where each token has several choices."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_10.room import wrong_answers
from course_lib.learn.judging.compare import difference
from course_lib.learn.judging.judge import by_cases
from course_lib.parallel.experts import expert_capacity

__all__ = ["CASES", "ROOM"]

# Tokens, experts, choices, factor; factors are sums of powers of two, so that no order of arithmetic rounds.
_SIZES = (
    (512, 8, 2, 2.0),
    (512, 8, 2, 1.0),
    (100, 8, 1, 1.25),
    (100, 8, 2, 1.25),
    (10, 8, 2, 1.0),
    (9, 4, 1, 1.0),
    (12, 5, 3, 1.5),
    (64, 64, 6, 1.5),
    (7, 2, 2, 4.0),
    (6, 8, 1, 16.0),
    (5, 3, 3, 0.5),
    (24, 4, 1, 0.5),
    (1, 8, 2, 1.0),
    (0, 8, 2, 1.25),
    (13, 8, 1, 1.25),  # 16.25 rows: rounded before they are shared out, one too few
)


def _right(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return expert_capacity(num_tokens, num_experts=num_experts, top_k=top_k, capacity_factor=factor)


def _label(num_tokens: int, num_experts: int, top_k: int, factor: float) -> str:
    tokens = "1 token" if num_tokens == 1 else f"{num_tokens} tokens"
    return f"{tokens}, {num_experts} experts, {top_k} for each token, a factor of {factor:g}"


CASES = tuple(Case(_label(*sizes), sizes, _right) for sizes in _SIZES)


def _compare(expected: Any, got: Any) -> str:
    """Whole numbers count, of Python, NumPy or torch; a float is none, and no size of anything."""
    if isinstance(got, torch.Tensor) and got.dim() == 0:
        got = got.item()
    if isinstance(got, float) and isinstance(expected, int) and got == expected:
        return f"expected the whole number {expected}, got the float {got!r}"
    return difference(expected, got)


ROOM = Exercise(
    name="10.room",
    title="Room at an expert",
    judge=by_cases(CASES, compare=_compare),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "How many rows do all experts together get, if no choice is turned away? Count for 8 tokens with 2 choices "
        "each.",
        "There are `num_tokens * top_k` rows. An even expert has one part in `num_experts` of them.",
        "Take `factor * num_tokens * top_k / num_experts`, rounded up by `math.ceil`, and `min` with `num_tokens`.",
    ),
    forbidden=("course_lib.parallel.experts.expert_capacity",),
    passed="Each expert has room for the factor times its even share of all choices, and for no more than all tokens.",
)
