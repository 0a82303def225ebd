"""What is made of logits: the loss of a language model, and a share of right answers."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

__all__ = ["accuracy", "next_token_loss"]


def next_token_loss(logits: Tensor, targets: Tensor, *, reduction: str = "mean") -> Tensor:
    """Cross-entropy of every position against the token that follows it, in nats.

    ``logits`` (B, T, V) and ``targets`` (B, T), where ``targets[b, t]`` is the token after position ``t``.
    A model that knows nothing scores ``log(V)``. With ``reduction="mean"`` the mean runs over all B*T
    positions: means over unequal parts of a batch must be weighted by their positions before they are
    added.
    """
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)


def accuracy(logits: Tensor, targets: Tensor) -> float:
    """The share of positions, 0 to 1, whose largest logit is the target: (..., C) against (...)."""
    return (logits.argmax(dim=-1) == targets).float().mean().item()
