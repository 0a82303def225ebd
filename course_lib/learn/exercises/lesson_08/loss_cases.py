"""What a split loss is tried on: logits of three kinds, and targets on all ranks or on one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster import Rank
from course_lib.learn.exercise import Outcome
from course_lib.learn.exercises.lesson_08.judging import READY_MADE
from course_lib.learn.exercises.lesson_08.step import Seen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import CALLED, leaf, made, manners, manners_of
from course_lib.meter import Call

__all__ = [
    "FAR_BELOW",
    "FORWARD_BEYOND",
    "GRADIENT",
    "KINDS",
    "LARGE",
    "LIBRARY",
    "LOSS_ITSELF",
    "PLAIN",
    "beyond_by_all_logits",
    "logits_of",
    "right",
    "targets_of",
    "trial",
    "whose",
]

PLAIN, LARGE, FAR_BELOW = "logits near 0", "logits in the thousands", "logits thousands below 0"
KINDS = (PLAIN, LARGE, FAR_BELOW)
LOSS_ITSELF, GRADIENT = "the loss", "the gradient of this rank's logits"
FORWARD_BEYOND, BACKWARD = "numbers a position sent forward beyond need", "numbers a position sent backward"
LIBRARY = "course_lib.parallel.tensor.vocabulary.vocab_parallel_cross_entropy"

_TOKENS_A_RANK = {PLAIN: 7, LARGE: 5, FAR_BELOW: 4}


def logits_of(kind: str, world_size: int, number: int = 1) -> Tensor:
    """All logits, (N, V)."""
    logits = made(f"{kind} {number}", len(targets_of(kind, world_size)), _TOKENS_A_RANK[kind] * world_size)
    return {PLAIN: logits, LARGE: 1000 * (logits + 3), FAR_BELOW: -1000 * (logits.abs() + 3)}[kind]


def targets_of(kind: str, world_size: int) -> Tensor:
    """(N,): the first and the last token of every rank and one between; or, far below 0, tokens of the last rank."""
    size = _TOKENS_A_RANK[kind]
    if kind == FAR_BELOW:
        return torch.tensor([-1, -2, -1]) + size * world_size
    places = [0, size - 1] if kind == LARGE else [0, size - 1, 2]
    return torch.tensor([rank * size + place for place in places for rank in reversed(range(world_size))])


def whose(outcome: Outcome) -> tuple[str, int, int]:
    """The kind, the rank and the number of ranks of an outcome."""
    found = re.fullmatch(r"(.*), rank (\d+) of (\d+)", outcome.case)
    assert found is not None, outcome.case
    return found[1], int(found[2]), int(found[3])


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> dict[str, Any]:
    """The report of a loss on this rank."""
    seen = seen_again(partial(_step, answer, me, kind), me.world_size)
    if isinstance(seen.outputs, str):
        return {LOSS_ITSELF: seen.outputs, CALLED: seen.ready_made}
    num_positions = len(targets_of(kind, me.world_size))
    forward, backward = (_sent(calls) / num_positions for calls in (seen.forward, seen.backward))
    loss = seen.outputs[0]
    return {
        LOSS_ITSELF: loss.reshape(()) if loss.numel() == 1 else loss,
        GRADIENT: seen.gradients["logits"],
        FORWARD_BEYOND: max(0.0, forward - _needed(me.world_size)),
        BACKWARD: backward,
        **manners_of(seen),
    }


def _step(answer: Callable[..., Any], me: Rank, kind: str, number: int) -> Seen:
    whole = logits_of(kind, me.world_size, number)
    leaves = {"logits": leaf(whole.chunk(me.world_size, dim=1)[me.rank], me)}
    targets = targets_of(kind, me.world_size).to(me.device)
    handed = {"logits": leaves["logits"] * 1.0, "targets": targets}  # logits come from the layers before
    run = partial(answer, me, *handed.values())
    return take_step(me, run, leaves, handed, torch.sum, (LIBRARY, *READY_MADE))


def _sent(calls: Sequence[Call]) -> float:
    """In numbers of float64."""
    return sum(sum(call.sent_bytes.values()) for call in calls) / 8


def _needed(num_ranks: int) -> float:
    """Three all-reduced numbers; or two that are gathered, a rank's own log-sum and the target's logit."""
    return max(3 * 2 * (num_ranks - 1) / num_ranks, 2.0 * (num_ranks - 1))


def beyond_by_all_logits(outcome: Outcome) -> float:
    """What is reported as sent beyond need by who sends all of its logits to every other rank."""
    kind, _, n = whose(outcome)
    return _TOKENS_A_RANK[kind] * (n - 1) - _needed(n)


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    """The report of a right loss, from all logits in one process."""

    def expected(rank: int, world_size: int) -> dict[str, Any]:
        logits = logits_of(kind, world_size).requires_grad_()
        loss = F.cross_entropy(logits, targets_of(kind, world_size))
        (gradient,) = torch.autograd.grad(loss, logits)
        own = gradient.chunk(world_size, dim=1)[rank]
        return {LOSS_ITSELF: loss.detach(), GRADIENT: own, FORWARD_BEYOND: 0.0, BACKWARD: 0.0, **manners()}

    return expected
