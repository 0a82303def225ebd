"""What a gate is tried on: each by itself, one behind the other, and two regions that are gone back through in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_08.step import AS_IT_WAS
from course_lib.learn.exercises.lesson_08.tries import NOTHING, all_reduce_of, made, reported, weighted_sum

__all__ = ["BOTH", "CROSSED", "ENTER", "KEPT_BACK", "LEAVE", "SHAPES", "own", "right", "start"]

ENTER, LEAVE, BOTH = "the entrance", "the exit", "in through one gate and out by the other"
CROSSED = "an entrance and an exit of two regions, backward from the entrance first"
SHAPES = {ENTER: (2, 3, 4), LEAVE: (2, 1, 5), BOTH: (4, 3), CROSSED: (7,)}
KEPT_BACK = "the gradient that came to the gate, afterwards"


def own(x: Tensor, rank: int) -> Tensor:
    """What a rank computes inside the region: something else on each."""
    return torch.sin((rank + 1) * x)


def start(kind: str, rank: int, number: int) -> dict[str, Tensor]:
    """What comes to the gates: the same on every rank, but for partial sums."""
    x = made(f"{kind} {number}", *SHAPES[kind])
    if kind == LEAVE:
        return {"x": (rank + 1) * x}
    return {"x": x, "partial": made(f"partial {rank} {number}", *SHAPES[kind])} if kind == CROSSED else {"x": x}


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    """The report of a right gate, by autograd in one process."""

    def expected(rank: int, world_size: int) -> dict[str, Any]:
        of_ranks = [
            {name: one.requires_grad_() for name, one in start(kind, other, 1).items()} for other in range(world_size)
        ]
        mine = of_ranks[rank]
        entered = [own(mine["x"], other) for other in range(world_size)]  # x is the same on all
        partial = [given["partial" if kind == CROSSED else "x"] for given in of_ranks]
        if kind == ENTER:
            outputs, losses = [entered[rank]], [weighted_sum(one) for one in entered]
        elif kind == LEAVE:
            outputs = [torch.stack(partial).sum(dim=0)]
            losses = [weighted_sum(outputs[0])]
        elif kind == BOTH:
            outputs = [torch.stack(entered).sum(dim=0)]
            losses = [weighted_sum(outputs[0])]
        else:
            outputs = [entered[rank], torch.stack(partial).sum(dim=0)]
            losses = [*(weighted_sum(one) for one in entered), weighted_sum(outputs[1])]
        gradients = torch.autograd.grad(torch.stack(losses).sum(), list(mine.values()))
        sent = all_reduce_of(*SHAPES[kind])
        report = reported(
            outputs[0].detach() if len(outputs) == 1 else torch.cat([one.detach() for one in outputs]),
            dict(zip(mine, gradients, strict=True)),
            NOTHING if kind == ENTER else sent,
            NOTHING if kind == LEAVE else sent,
        )
        return {**report, KEPT_BACK: AS_IT_WAS}

    return expected
