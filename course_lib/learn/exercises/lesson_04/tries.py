"""Replicas for trials, the same on every rank, and how what trials report of them is compared."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from course_lib.learn.catalogue.exercise import Evidence
from course_lib.learn.judging.compare import close_to
from course_lib.meter import Call

__all__ = [
    "ABOUT",
    "EXACT",
    "KEPT",
    "alone",
    "gradients_by_name",
    "mixed_replica",
    "rank_gradients",
    "replica",
    "reseeded",
    "times_sent",
]

EXACT = close_to(1e-9, 1e-12)
ABOUT = close_to(0.16, 0.06)  # of bytes: what a ring sends depends on how tensors divide, and on what pads them
KEPT = "your code changed what was to stay: {got}"


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


def mixed_replica(device: torch.device | str = "cpu", *, dropout: float = 0.0) -> nn.Sequential:
    """BatchNorm, dropout, a matrix that is used twice and a frozen bias: what real models are made of."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(14)
        first, middle, again = nn.Linear(8, 7), nn.Linear(7, 7), nn.Linear(7, 7, bias=False)
        again.weight = middle.weight
        first.bias.requires_grad_(False)
        norm, last = nn.BatchNorm1d(7), nn.Linear(7, 4)
        layers = (first, norm, nn.Dropout(dropout), middle, nn.Tanh(), again, last)
        return nn.Sequential(*layers).double().to(device)


def rank_gradients(model: nn.Module, rank: int) -> dict[str, Tensor]:
    """Gradients that a rank might have after its backward pass, by name; another set for each rank."""
    draw = torch.Generator().manual_seed(100 + rank)
    return {
        name: torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype)
        for name, parameter in model.named_parameters()
    }


def gradients_by_name(model: nn.Module) -> dict[str, Tensor | str]:
    """The gradient of each parameter that learns; a word where there is none."""
    learning = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return {name: "there is none" if p.grad is None else p.grad.detach().cpu().clone() for name, p in learning}


def times_sent(calls: Sequence[Call], size_bytes: int) -> float:
    """What the calls of a rank put on the wire, in units of ``size_bytes``, to one digit.

    A reduce-scatter counts for what it takes, as NCCL does it. gloo's is a whole all-reduce, which nobody can see from
    outside.
    """
    return round(sum(map(_sent_bytes, calls)) / size_bytes, 1)


def _sent_bytes(call: Call) -> float:
    n = len(call.group)
    return call.size_bytes * (n - 1) / n if call.operation == "reduce_scatter" else sum(call.sent_bytes.values())


def reseeded(seed: int) -> str:
    """What has changed, where the process had this seed; "" where it has it still."""
    return "" if torch.initial_seed() == seed else "the seed of everybody's random numbers (`torch.manual_seed`)"


def alone(evidence: Evidence) -> bool:
    """Whether all is right but what was tried on one rank."""
    return bool(evidence.wrong) and all(one.num_ranks == 1 for one in evidence.wrong)
