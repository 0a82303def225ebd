"""What the gates along positions are tried on: each by itself, and one behind the other; and what they may send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_08.gates.cases import KEPT_BACK, own
from course_lib.learn.exercises.lesson_08.step import AS_IT_WAS, StepSeen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import (
    CALLED,
    OUTPUT,
    in_words,
    leaf,
    made,
    manners,
    manners_of,
    reported,
    ring_bytes,
    weighted_sum,
)
from course_lib.meter import Call

__all__ = ["BOTH", "ENTER", "HALF", "KINDS", "LEAVE", "right", "trial"]

ENTER, LEAVE, BOTH = "the entrance", "the exit", "in through one gate and out by the other"
KINDS = (ENTER, LEAVE, BOTH)
HALF = "half of an all-reduce"
_SHAPES = {ENTER: (2, 3), LEAVE: (1, 5), BOTH: (3, 2)}  # of this rank's positions: (P, D)


def _start(kind: str, rank: int, world_size: int, number: int) -> Tensor:
    """What comes to the first gate: a rank's own positions, or its summand of all of them."""
    size, width = _SHAPES[kind]
    rows = size * world_size if kind == LEAVE else size
    return made(f"{kind} {rank} {number}", rows, width)


def trial(answer: Any, me: Rank, kind: str) -> dict[str, Any]:
    """The report of an answer on this rank."""
    overwritten: list[str] = []
    seen = seen_again(partial(_step, answer, me, kind, overwritten), me.world_size)
    if isinstance(seen.outputs, str):
        return {OUTPUT: seen.outputs, CALLED: seen.ready_made}
    size, width = _SHAPES[kind]
    most_bytes = 8 * size * width * (me.world_size - 1)  # what a ring sends of one half
    there, back = (_in_words(kind, calls, most_bytes) for calls in (seen.forward, seen.backward))
    report = reported(seen.outputs[0], seen.gradients, there, back, manners_of(seen))
    return {**report, KEPT_BACK: overwritten[0] if overwritten else AS_IT_WAS}


def _step(answer: Any, me: Rank, kind: str, overwritten: list[str], number: int) -> StepSeen:
    leaves = {"x": leaf(_start(kind, me.rank, me.world_size, number), me)}
    handed = {"x": leaves["x"] * 1.0}  # it comes from the layers before

    came: list[tuple[Tensor, Tensor]] = []  # a gradient that comes to a gate, and what it was

    def through(x: Tensor, is_entrance: bool) -> Any:
        passed = answer.apply(x, is_entrance)
        if isinstance(passed, Tensor) and passed.requires_grad:
            passed.register_hook(lambda grad: came.append((grad, grad.clone())))
        return passed

    def run() -> Any:
        x: Any = handed["x"]
        if kind != LEAVE:
            x = through(x, True)
            x = own(x, me.rank) if isinstance(x, Tensor) else x
        return through(x, False) if kind != ENTER and isinstance(x, Tensor) else x

    seen = take_step(me, run, leaves, handed, weighted_sum)
    overwritten += ["overwritten" for grad, was in came if not torch.equal(grad, was)]
    return seen


def _in_words(kind: str, calls: Sequence[Call], most_bytes: int) -> str:
    sent = ring_bytes(calls)
    num_halves = 2 if kind == BOTH else 1
    return _halves(kind) if calls and sent is not None and sent <= num_halves * most_bytes else in_words(calls)


def _halves(kind: str) -> str:
    return f"{HALF} at each gate" if kind == BOTH else HALF


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    """The report of right gates, by autograd in one process; every rank's output counts in the loss."""

    def expected(rank: int, world_size: int) -> dict[str, Any]:
        of_ranks = [_start(kind, other, world_size, 1).requires_grad_() for other in range(world_size)]
        if kind == LEAVE:
            outputs = torch.stack(of_ranks).sum(dim=0).chunk(world_size)
        else:
            entered = [own(torch.cat(of_ranks), other) for other in range(world_size)]
            joined = torch.stack(entered).sum(dim=0).chunk(world_size)
            outputs = tuple(entered) if kind == ENTER else joined
        torch.stack([weighted_sum(output) for output in outputs]).sum().backward()
        gradient = of_ranks[rank].grad
        report = reported(outputs[rank].detach(), {"x": gradient}, _halves(kind), _halves(kind), manners())
        return {**report, KEPT_BACK: AS_IT_WAS}

    return expected
