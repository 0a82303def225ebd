"""Layers of experts, tokens for them, and an oracle that computes every expert for every token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.parallel.experts import MixtureOfExperts

WIDTH, HIDDEN = 4, 6


def layer_of(num_experts: int = 5, **options) -> MixtureOfExperts:
    torch.manual_seed(3)
    layer = MixtureOfExperts(WIDTH, hidden=HIDDEN, num_experts=num_experts, **options).double()
    with torch.no_grad():
        layer.router.weight.mul_(50)  # scores that differ
    return layer


def tokens_of(num_tokens: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_tokens, WIDTH, dtype=torch.float64, generator=generator)


def dense(layer: MixtureOfExperts, x: Tensor, *, kept: Tensor | None = None) -> Tensor:
    """The formula, token by token and expert by expert: what is not chosen counts zero times."""
    router, rows = layer.router, []
    for number, token in enumerate(x):
        probabilities = (router.weight @ token).softmax(0)
        ranked = sorted(range(len(probabilities)), key=lambda e: -(probabilities + router.selection_bias)[e])
        chosen = ranked[: router.top_k]
        total = sum(probabilities[e] for e in chosen) if router.normalised else 1.0
        y = torch.zeros_like(token)
        for choice, expert in enumerate(chosen):
            if kept is None or kept[number, choice]:
                hidden = F.gelu(layer.experts.w_up[expert] @ token)
                y = y + probabilities[expert] / total * (layer.experts.w_down[expert] @ hidden)
        rows.append(y)
    return torch.stack(rows)
