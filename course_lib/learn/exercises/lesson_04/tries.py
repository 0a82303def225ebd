"""Replicas for trials, the same on every rank, and what trials report of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.judging.compare import Compare, close_to
from course_lib.meter import Call

__all__ = [
    "KEPT",
    "NOTHING",
    "all_got",
    "alone",
    "differing",
    "fact_by_fact",
    "gradients_by_name",
    "mixed_replica",
    "only_wrong_in",
    "rank_gradients",
    "replica",
    "reseeded",
    "same_on_all",
    "times_sent",
]

_BYTES = "sent, in"  # what a ring sends depends on how tensors divide into parts, and on what pads them
_ABOUT = close_to(0.16, 0.06)
KEPT, NOTHING = "changed that was to stay", "nothing"


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


# -- reading what trials report ---------------------------------------------------------------------------------


def fact_by_fact() -> Compare:
    """A comparison of what is expected, by its name; what else a trial reports tells wrong answers apart."""
    compare = close_to(1e-9, 1e-12)

    def differs(expected: Any, got: Any) -> str:
        if not isinstance(expected, dict) or not isinstance(got, dict):
            return compare(expected, got)
        for name, want in expected.items():
            close = _ABOUT if name.startswith(_BYTES) else compare
            found = close(want, got[name]) if name in got else "it is missing"
            if found:
                is_change = want == NOTHING and isinstance(got.get(name), str)
                return f"your code changed what was to stay: {got[name]}" if is_change else f"{name}: {found}"
        return ""

    return differs


def differing(outcome: AnswerOutcome) -> set[str]:
    """The names under which this outcome is not as expected."""
    if outcome.error is not None or not isinstance(outcome.got, dict):
        return {"everything"}
    alike = fact_by_fact()
    return {name for name, want in outcome.expected.items() if alike({name: want}, {name: outcome.got.get(name)})}


def only_wrong_in(evidence: Evidence, *names: str) -> bool:
    """Whether something is wrong, and under these names alone."""
    return bool(evidence.wrong) and all(differing(outcome) <= set(names) for outcome in evidence.wrong)


def all_got(evidence: Evidence, name: str) -> list[Any]:
    """What came under this name, in every outcome that has it."""
    return [o.got[name] for o in evidence.outcomes if isinstance(o.got, dict) and name in o.got]


def alone(evidence: Evidence) -> bool:
    """Whether all is right but what was tried on one rank."""
    return bool(evidence.wrong) and all(one.num_ranks == 1 for one in evidence.wrong)


def same_on_all(evidence: Evidence, name: str, value: Any) -> bool:
    """Whether this came under the name in every outcome."""
    got = all_got(evidence, name)
    return evidence.error is None and bool(got) and all(one == value for one in got)
