"""Capacity: how many tokens an expert takes, and which ones it turns away.

With a limit, memory and the time of the slowest expert are bounded and known beforehand. A token that is turned away
by all its experts gets zeros from the layer, and passes by on the residual stream. Each rank counts its own tokens
alone, so that no message is needed; which tokens are turned away therefore depends on how a batch is dealt to ranks.

Sources: Lepikhin et al., "GShard" (2020), section 2.2 (capacity, groups that count for themselves, first choices
first); Fedus et al., "Switch Transformers" (2021), section 2.2, equation 3 (the factor).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, at_least

__all__ = ["expert_capacity", "within_capacity"]


@checked
def expert_capacity(num_tokens: int, *, num_experts: int, top_k: int, capacity_factor: float) -> int:
    """Tokens that an expert takes: ``capacity_factor`` times its even share, rounded up, and never more than all.

    >>> expert_capacity(100, num_experts=8, top_k=2, capacity_factor=1.25)
    32
    """
    at_least(0, num_tokens=num_tokens)
    at_least(1, num_experts=num_experts, top_k=top_k)
    above_zero(capacity_factor=capacity_factor)
    room = capacity_factor * num_tokens * top_k / num_experts
    return num_tokens if room >= num_tokens else math.ceil(room)


def within_capacity(experts: Tensor, *, num_experts: int, capacity: int) -> Tensor:
    """Which choices have room: (N, k) numbers of experts -> (N, k) bool.

    All first choices come before all second ones, and among them a token before those after it.
    """
    at_least(0, capacity=capacity)
    num_tokens, top_k = experts.shape
    in_turn = experts.T.flatten()  # (k N,): first choices, then second ones
    order = in_turn.argsort(stable=True)  # expert after expert, each in turn
    sorted_experts = in_turn[order]
    starts = torch.searchsorted(sorted_experts, torch.arange(num_experts, device=experts.device))  # (E,)
    turn = torch.arange(len(order), device=experts.device) - starts[sorted_experts]  # 0 for an expert's first token
    kept = torch.empty_like(order, dtype=torch.bool).scatter_(0, order, turn < capacity)
    return kept.view(top_k, num_tokens).T
