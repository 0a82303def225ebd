"""10.room: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from course_lib.parallel.experts import expert_capacity


def by_the_library(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    return expert_capacity(num_tokens, num_experts=num_experts, top_k=top_k, capacity_factor=factor)


EXERCISE = "10.room"
FORBIDDEN = by_the_library
