"""Replicas for trials, the same on every rank, and what trials report of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.exercise import Evidence
from course_lib.meter import Call

__all__ = ["all_got", "gradient_vector", "rank_gradients", "replica", "times_sent", "weights"]


def replica(device: torch.device | str = "cpu", *, width: int = 24) -> nn.Sequential:
    """The same small model on every rank: three linear layers in float64, so that rounding hides nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        layers = (
            nn.Linear(8, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, 4),
        )
        return nn.Sequential(*layers).double().to(device)


def rank_gradients(model: nn.Module, rank: int) -> dict[str, Tensor]:
    """Gradients that a rank might have after its backward pass, by name; another set for each rank."""
    draw = torch.Generator().manual_seed(100 + rank)
    return {
        name: torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype)
        for name, parameter in model.named_parameters()
    }


def gradient_vector(model: nn.Module) -> Tensor | str:
    """All gradients of what learns, one after the other; a sentence where one is missing."""
    learning = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    missing = [name for name, parameter in learning if parameter.grad is None]
    if missing:
        return f"{missing[0]} has no gradient"
    return torch.cat([p.grad.detach().flatten().cpu() for _, p in learning if p.grad is not None])


def weights(model: nn.Module) -> Tensor:
    """All parameters, one after the other."""
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


def times_sent(calls: Sequence[Call], size_bytes: int) -> float:
    """What the calls of a rank put on the wire, in units of ``size_bytes``, to one digit."""
    return round(sum(sum(call.sent_bytes.values()) for call in calls) / size_bytes, 1)


def all_got(evidence: Evidence, name: str) -> list[Any]:
    """What came under this name, in every outcome that has it."""
    return [o.got[name] for o in evidence.outcomes if isinstance(o.got, dict) and name in o.got]
