"""Right answers to 10.choice in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["ANSWERS", "SAME"]


def in_float64(x: Tensor, router: Tensor) -> tuple[Tensor, Tensor]:
    shares = (x.double() @ router.double().T).softmax(1)
    weights, experts = torch.topk(shares, k=2, dim=1, sorted=False)
    return experts, weights.type_as(x)


def scores_first(x: Tensor, router: Tensor) -> tuple[Tensor, Tensor]:
    """Chosen by score; the weights are picked from the softmax afterwards."""
    scores = torch.einsum("nd,ed->ne", x.float(), router.float())
    experts = scores.topk(2).indices
    return experts, scores.softmax(-1).gather(1, experts).to(x.dtype)


def without_autocast(x: Tensor, router: Tensor) -> list[Tensor]:
    with torch.autocast(x.device.type, enabled=False):
        logits = F.linear(x.to(torch.float32), router.to(torch.float32))
        weights, experts = F.softmax(logits, dim=-1, dtype=torch.float32).topk(2, dim=-1)
    return [experts, weights.to(x.dtype)]


def by_sorting(x: Tensor, router: Tensor) -> tuple[Tensor, Tensor]:
    """By the log-sum-exp, and the second best before the best."""
    scores = torch.mm(x.float(), router.float().t())
    experts = scores.argsort(dim=1)[:, -2:]
    logs = scores.gather(1, experts) - scores.logsumexp(1, keepdim=True)
    return experts, logs.exp().to(x.dtype)


def centred(x: Tensor, router: Tensor) -> tuple[Tensor, Tensor]:
    """What all scores have in common is taken off first, in float32."""
    wide = router.float()
    scores = F.linear(x.float(), wide - wide.mean(0, keepdim=True))
    weights, experts = scores.softmax(-1).topk(2)
    return experts, weights.to(dtype=x.dtype)


ANSWERS = (in_float64, scores_first, without_autocast, by_sorting, centred)
SAME: dict[str, str] = {}
