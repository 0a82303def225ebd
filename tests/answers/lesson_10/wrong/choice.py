"""10.choice: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def _chosen_by(scores: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    weights, experts = scores.softmax(-1).topk(2)
    return experts, weights.to(dtype)


def _as_it_was(x: Tensor, router: Tensor) -> Any:
    return _chosen_by(F.linear(x, router), x.dtype)


def _wide_weights(x: Tensor, router: Tensor) -> Any:
    return _chosen_by(F.linear(x.float(), router.float()), torch.float32)


def _detached(x: Tensor, router: Tensor) -> Any:
    return _chosen_by(F.linear(x.float(), router.detach().float()), x.dtype)


EXERCISE = "10.choice"
EXAMPLES: dict[str, Any] = {
    "rounded-before-the-choice": _as_it_was,
    "weights-of-another-dtype": _wide_weights,
    "router-detached": _detached,
}
