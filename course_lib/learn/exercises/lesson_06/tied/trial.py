"""06.tied: a copy on the first rank and on the last, two steps, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_06.in_flight import InFlight
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING

__all__ = ["BYTES", "IN_FLIGHT", "KEPT", "KINDS", "STEPS", "SUM", "compare", "gradient", "right", "trial"]

KINDS = {  # by label: shape and type of the matrix
    "a small matrix": ((3, 2), torch.float64),
    "a matrix of float32": ((4, 5), torch.float32),
}
STEPS = 2
SUM, BYTES, IN_FLIGHT = "the gradient in step", "bytes sent", "messages on their way"
KEPT = "changed that was to stay"
_NO_COPY = {"holds": "no copy"}


def gradient(kind: str, rank: int, step: int) -> Tensor:
    """What the backward pass of this rank leaves."""
    shape, dtype = KINDS[kind]
    draw = torch.Generator().manual_seed(10 * rank + step)
    return torch.randn(shape, generator=draw, dtype=dtype)


def _weight(kind: str) -> Tensor:
    shape, dtype = KINDS[kind]
    return torch.linspace(-1, 1, torch.Size(shape).numel(), dtype=dtype).reshape(shape)


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    """The answer, called where there is a copy: on the first rank and on the last."""
    from course_lib.meter.communication.recorder import Recorder

    last = me.world_size - 1
    if me.rank not in (0, last):
        return _NO_COPY
    weight = nn.Parameter(_weight(kind).to(me.device))
    kept, facts = Kept(weight=weight, ignore=("gradients",)), {}
    with Recorder(me.rank) as recorder, InFlight() as in_flight:
        for step in range(STEPS):
            weight.grad = gradient(kind, me.rank, step).to(me.device)
            if answer(me, weight, last - me.rank) is ...:
                return ...
            facts[f"{SUM} {step + 1}"] = _found(weight)
    facts[BYTES] = sum(sum(call.sent_bytes.values()) for call in recorder.calls) / STEPS
    facts[IN_FLIGHT] = in_flight.seen or NOTHING
    return {**facts, KEPT: kept.changes() or _graph(weight) or NOTHING}


def _found(weight: nn.Parameter) -> Any:
    return "there is none" if weight.grad is None else weight.grad.detach().cpu().clone()


def _graph(weight: nn.Parameter) -> str:
    follows = weight.grad is not None and weight.grad.requires_grad
    return "`weight.grad` requires a gradient itself now" if follows else ""


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, n: int) -> dict[str, Any]:
        if rank not in (0, n - 1):
            return _NO_COPY
        sums = {f"{SUM} {step + 1}": gradient(kind, 0, step) + gradient(kind, n - 1, step) for step in range(STEPS)}
        return {**sums, IN_FLIGHT: NOTHING, BYTES: float(_weight(kind).nbytes), KEPT: NOTHING}

    return expected


def compare(expected: dict[str, Any], got: Any) -> str:
    """A sum of two numbers is the same in either order, to the last bit; so copies can stay equal."""
    if not isinstance(got, dict):
        return close_to(1e-9)(expected, got)
    said = f"; and this rank {got[IN_FLIGHT]}" if got.get(IN_FLIGHT, NOTHING) != NOTHING else ""
    for name, want in expected.items():
        if name == IN_FLIGHT:
            if said:
                return f"the sums are right this time{said}"
            continue
        if found := close_to(0.0, 0.0)(want, got.get(name)):
            return f"{name}: {found}{said}"
    return ""
