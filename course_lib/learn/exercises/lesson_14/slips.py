"""What the losses would be if one thing were done otherwise: on one device, as marks of a mistake."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.models import next_token_loss

__all__ = ["SLIPS", "losses_of"]

Step = Callable[[nn.Module, torch.optim.Optimizer, Tensor, Tensor], Tensor]


def _right(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor, targets: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = next_token_loss(model(tokens), targets)
    loss.backward()
    optimizer.step()
    return loss


def _kept(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor, targets: Tensor) -> Tensor:
    """Gradients are added to those of the steps before."""
    loss = next_token_loss(model(tokens), targets)
    loss.backward()
    optimizer.step()
    return loss


def _no_update(model: nn.Module, _: torch.optim.Optimizer, tokens: Tensor, targets: Tensor) -> Tensor:
    return next_token_loss(model(tokens), targets)


def _summed(by: int) -> Step:
    """Gradients of so many ranks added up and not averaged."""

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens), targets)
        (by * loss).backward()
        optimizer.step()
        return loss

    return step


def _part(of: int) -> Step:
    """The first rows alone."""

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor, targets: Tensor) -> Tensor:
        rows = len(tokens) // of
        return _right(model, optimizer, tokens[:rows], targets[:rows])

    return step


SLIPS: dict[str, Any] = {
    "kept": (_kept,),
    "no update": (_no_update,),
    "summed": tuple(_summed(by) for by in (2, 4, 8)),
    "part": tuple(_part(of) for of in (2, 4, 8)),
    "usual AdamW": (_right,),
    "SGD": (_right,),
}
"""By name the ways to take a step; the last two by another optimizer."""

_OPTIMIZERS: dict[str, Any] = {
    "usual AdamW": torch.optim.AdamW,
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=1e-2),
}


@lru_cache(maxsize=64)
def losses_of(level: int, seed: int, slip: str, num_steps: int) -> tuple[tuple[float, ...], ...]:
    """The losses of a slip, for each form that it may take."""
    from course_lib.capstone import job_for
    from course_lib.capstone.running.reference_run import one_thread
    from course_lib.capstone.running.task import ADAMW, batch_of, plain_model

    job = job_for(level, seed)
    tokens, targets = batch_of(job)
    found = []
    for step in SLIPS[slip]:
        model = plain_model(job)
        optimizer = _OPTIMIZERS.get(slip, partial(torch.optim.AdamW, **ADAMW))(model.parameters())
        with one_thread():
            found.append(tuple(step(model, optimizer, tokens, targets).item() for _ in range(num_steps)))
    return tuple(found)
