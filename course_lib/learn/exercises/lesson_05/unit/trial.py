"""A step of a layer that gathers its weight, on a rank: what comes of it, and what it sends.

A second step is for memory alone (``unit_memory.py``): who records calls keeps what they gave.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_05.unit.cases import (
    BACKWARD_NEEDS,
    FORWARD_NEEDS,
    ROW,
    ROWS,
    TWICE,
    UnitStart,
    loss_of,
    reported_of,
    start,
    use,
)
from course_lib.learn.exercises.lesson_05.unit.memory import Left, left_in_memory
from course_lib.learn.exercises.lesson_08.step import AS_IT_WAS, Several, StepSeen, seen_again, take_step
from course_lib.learn.exercises.lesson_08.tries import CALLED, OUTPUT, in_words, leaf, manners_of, ring_bytes
from course_lib.meter import Call

__all__ = ["trial"]


class _NoOutput(Exception):
    """What a layer gave is no tensor of its output's shape: there is nothing to go on with."""

    def __init__(self, given: Any) -> None:
        self.given = given.detach() if isinstance(given, Tensor) else given


def trial(answer: Any, me: Rank, kind: str) -> dict[str, Any]:
    """The report of an answer on this rank."""
    overwritten: list[str] = []
    seen = seen_again(partial(_step, answer, me, kind, overwritten), me.world_size)
    if isinstance(seen.outputs, str):
        return {OUTPUT: seen.outputs, CALLED: seen.ready_made}
    shards = start(kind, me.rank, me.world_size, 1).shards
    size_bytes = sum(shard.nbytes for shard in shards.values()) * (2 if kind == TWICE else 1)
    half_bytes = (me.world_size - 1) * size_bytes  # what a ring sends of an all-gather, and of a reduce-scatter
    left = Left() if any(isinstance(one, str) for one in seen.gradients.values()) else _memory(answer, me, kind)
    backward = _in_words(seen.backward, BACKWARD_NEEDS, 2 * half_bytes)
    if left == Left() and kind != ROW and _brings_half(seen.backward, 2 if kind == TWICE else 1, half_bytes):
        backward = in_words(seen.backward)
    return reported_of(
        seen.outputs,
        seen.gradients,
        _in_words(seen.forward, FORWARD_NEEDS, half_bytes),
        backward,
        manners_of(seen),
        left,
        overwritten[0] if overwritten else AS_IT_WAS,
    )


def _in_words(calls: Sequence[Call], needed: str, most_bytes: int) -> str:
    sent = ring_bytes(calls)
    return needed if calls and sent is not None and sent <= most_bytes else in_words(calls)


def _brings_half(calls: Sequence[Call], num_uses: int, half_bytes: int) -> bool:
    """One call a use, of no more than that: it brings the rows or the sum, and an input that learns takes both."""
    sent = ring_bytes(calls)
    return sent is not None and len(calls) <= num_uses and sent <= half_bytes


def _step(answer: Any, me: Rank, kind: str, overwritten: list[str], number: int) -> StepSeen:
    begun = start(kind, me.rank, me.world_size, number)
    leaves = _leaves(begun, me)
    handed = _handed(begun, leaves)
    came: list[tuple[Tensor, Tensor]] = []  # a gradient that comes to backward, and what it was

    def through(x: Tensor, shard: Tensor) -> Tensor:
        y = answer.apply(x, shard)
        if not isinstance(y, Tensor) or y.shape != (len(x), ROWS * me.world_size):
            raise _NoOutput(y)
        if y.requires_grad:
            y.register_hook(lambda grad: came.append((grad, grad.clone())))
        return y

    def run() -> Any:
        try:
            return Several(use(kind, through, handed))
        except _NoOutput as error:
            return error.given

    seen = take_step(me, run, {name: leaves[name] for name in begun.learning}, handed, loss_of)
    overwritten += ["overwritten" for grad, was in came if not torch.equal(grad, was)]
    return seen


def _leaves(begun: UnitStart, me: Rank) -> dict[str, Tensor]:
    tensors = {**begun.inputs, **begun.shards}
    return {name: leaf(one, me, is_frozen=name not in begun.learning) for name, one in tensors.items()}


def _handed(begun: UnitStart, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inputs come from the layers before, or are data; shards are leaves."""
    return {**leaves, **{name: leaves[name] * 1.0 for name in begun.inputs}}


def _memory(answer: Any, me: Rank, kind: str) -> Left:
    """What another step leaves in memory."""
    begun = start(kind, me.rank, me.world_size, 2)
    leaves = _leaves(begun, me)
    handed = _handed(begun, leaves)
    whole_bytes = {name: shard.nbytes * me.world_size for name, shard in begun.shards.items()}
    return left_in_memory(partial(use, kind), answer.apply, leaves, handed, loss_of, whole_bytes, keepers=[answer])
