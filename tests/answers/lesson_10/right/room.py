"""Right answers to 10.room in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

import math
from fractions import Fraction

import torch

__all__ = ["ANSWERS", "SAME"]


def by_whole_numbers(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    """Rounded up by a division that rounds down."""
    return min(num_tokens, int(-(-factor * num_tokens * top_k // num_experts)))


def by_the_even_share(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    even = Fraction(num_tokens * top_k, num_experts)
    room = math.ceil(even * Fraction(factor))
    return room if room < num_tokens else num_tokens


def by_torch(num_tokens: int, num_experts: int, top_k: int, factor: float) -> torch.Tensor:
    room = torch.tensor(factor * num_tokens * top_k / num_experts, dtype=torch.float64).ceil()
    return room.clamp(max=num_tokens).long()


def by_counting(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    room = 0
    while room < num_tokens and room * num_experts < factor * num_tokens * top_k:
        room += 1
    return room


ANSWERS = (by_whole_numbers, by_the_even_share, by_torch, by_counting)
SAME: dict[str, str] = {
    "3: `min(num_tokens, math.ceil(factor * num_tokens * top_k / num_experts))` -> "
    "`min(math.ceil(factor * num_tokens * top_k / num_experts), num_tokens)`": "The smaller of two is the same.",
}
