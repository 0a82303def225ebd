"""What a split loss is tried on: logits of three kinds, and targets on all ranks or on one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import AnswerOutcome
from course_lib.learn.exercises.lesson_08.judging import READY_MADE
from course_lib.learn.exercises.lesson_08.step import StepSeen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import CALLED, HANDED_IN, SENT_BACK, leaf, made, manners, manners_of
from course_lib.meter import Call

__all__ = [
    "BARRIERS",
    "FAR_BELOW",
    "GRADIENT",
    "KINDS",
    "LARGE",
    "LIBRARY",
    "LOSS_ITSELF",
    "PLAIN",
    "hands_in_logits",
    "logits_of",
    "right",
    "targets_of",
    "trial",
    "whose",
]

PLAIN, LARGE, FAR_BELOW = "logits near 0", "logits in the thousands", "logits thousands below 0"
KINDS = (PLAIN, LARGE, FAR_BELOW)
BARRIERS = "barriers"
LOSS_ITSELF, GRADIENT = "the loss", "the gradient of this rank's logits"
_A_FEW, _NOTHING = "a few numbers a position", "nothing"
_MOST = 4  # numbers a position that a rank may hand in, fewer than its logits
LIBRARY = "course_lib.parallel.tensor.vocabulary.vocab_parallel_cross_entropy"

_TOKENS_A_RANK = {PLAIN: 7, LARGE: 8, FAR_BELOW: 6}


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


def whose(outcome: AnswerOutcome) -> tuple[str, int, int]:
    """The kind, the rank and the number of ranks of an outcome."""
    found = re.fullmatch(r"(.*), rank (\d+) of (\d+)", outcome.case)
    assert found is not None, outcome.case
    return found[1], int(found[2]), int(found[3])


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> dict[str, Any]:
    """The report of a loss on this rank."""
    seen = seen_again(partial(_step, answer, me, kind), me.world_size)
    if isinstance(seen.outputs, str):
        return {LOSS_ITSELF: seen.outputs, CALLED: seen.ready_made}
    loss = seen.outputs[0]
    return {
        LOSS_ITSELF: loss.reshape(()) if loss.numel() == 1 else loss,
        GRADIENT: seen.gradients["logits"],
        HANDED_IN: _handed_in(seen.forward, kind, me.world_size),
        SENT_BACK: _sent_back(seen.backward, kind, me.world_size),
        BARRIERS: _barriers((*seen.forward, *seen.backward)),
        **manners_of(seen),
    }


def _step(answer: Callable[..., Any], me: Rank, kind: str, number: int) -> StepSeen:
    whole = logits_of(kind, me.world_size, number)
    leaves = {"logits": leaf(whole.chunk(me.world_size, dim=1)[me.rank], me)}
    targets = targets_of(kind, me.world_size).to(me.device)
    handed = {"logits": leaves["logits"] * 1.0, "targets": targets}  # logits come from the layers before
    run = partial(answer, me, *handed.values())
    return take_step(me, run, leaves, handed, torch.sum, (LIBRARY, *READY_MADE))


def _handed_in(calls: Sequence[Call], kind: str, world_size: int) -> str:
    """How much a rank handed to its collectives and messages, unless it sent no more than three all-reduced numbers.

    Of the latter kind is a ring of messages, which hands in a number part by part.
    """
    handed = sum(call.size_bytes for call in calls if _hands_in(call)) / _row_bytes(kind, world_size)
    sent = sum(sum(call.sent_bytes.values()) for call in calls) / _row_bytes(kind, world_size)
    needed = max(3 * 2 * (world_size - 1) / world_size, 2.0 * (world_size - 1))  # or two numbers that are gathered
    return _A_FEW if handed <= _MOST or sent <= needed else f"{handed:.3g} numbers for each position; three will do"


def _hands_in(call: Call) -> bool:
    if call.operation in ("broadcast", "scatter"):
        return call.root == call.rank
    return call.operation != "recv"


def _sent_back(calls: Sequence[Call], kind: str, world_size: int) -> str:
    sent = sum(sum(call.sent_bytes.values()) for call in calls) / _row_bytes(kind, world_size)
    return f"{sent:.3g} numbers for each position; none need be sent" if sent else _NOTHING


def _barriers(calls: Sequence[Call]) -> str:
    number = sum(call.operation == "barrier" for call in calls)
    return f"{number} barrier{'s' * (number > 1)}, which carry nothing" if number else _NOTHING


def _row_bytes(kind: str, world_size: int) -> int:
    """One number of float64 for each position."""
    return 8 * len(targets_of(kind, world_size))


def hands_in_logits(outcome: AnswerOutcome) -> bool:
    """Whether a rank handed in as many numbers a position as it has logits, or more."""
    kind, _, _ = whose(outcome)
    said = outcome.got[HANDED_IN]
    return said != _A_FEW and float(said.split()[0]) >= _TOKENS_A_RANK[kind]


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    """The report of a right loss, from all logits in one process."""

    def expected(rank: int, world_size: int) -> dict[str, Any]:
        logits = logits_of(kind, world_size).requires_grad_()
        loss = F.cross_entropy(logits, targets_of(kind, world_size))
        (gradient,) = torch.autograd.grad(loss, logits)
        own = gradient.chunk(world_size, dim=1)[rank]
        return {
            LOSS_ITSELF: loss.detach(),
            GRADIENT: own,
            HANDED_IN: _A_FEW,
            SENT_BACK: _NOTHING,
            BARRIERS: _NOTHING,
            **manners(),
        }

    return expected
