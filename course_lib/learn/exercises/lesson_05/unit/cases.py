"""What a layer that gathers its weight is tried on, and what one device computes of the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_05.unit.memory import Left
from course_lib.learn.exercises.lesson_08.step import AS_IT_WAS
from course_lib.learn.exercises.lesson_08.tries import made, manners, reported, weighted_sum

__all__ = [
    "AFTER",
    "BACKWARD_NEEDS",
    "BETWEEN",
    "CAME",
    "FORWARD_NEEDS",
    "KINDS",
    "ROW",
    "ROWS",
    "SQUARE",
    "TWICE",
    "UNEVEN",
    "UnitStart",
    "loss_of",
    "on_one_device",
    "reported_of",
    "right",
    "start",
    "use",
]

SQUARE = "a layer as wide as it is high"
UNEVEN = "a batch of another size on each rank"
ROW = "two layers in a row, of which the first reads data"
TWICE = "a layer used twice before backward"
KINDS = (SQUARE, UNEVEN, ROW, TWICE)
ROWS = 6  # of each weight, on each rank
FORWARD_NEEDS, BACKWARD_NEEDS = "all-gather for each use", "all-gather and reduce-scatter for each use"
BETWEEN, AFTER = "made by forward, and still there", "made in this step, and still there"
CAME = "the gradient that came to backward"


@dataclass(frozen=True)
class UnitStart:
    """What a rank begins with. ``inputs`` and ``shards`` by the names under which they are told of."""

    inputs: dict[str, Tensor]  # (B, in), float64, B another one on each rank but in SQUARE
    shards: dict[str, Tensor]  # (ROWS, in), this rank's
    learning: tuple[str, ...]  # those that need a gradient


def _widths(kind: str, world_size: int) -> dict[str, int]:
    """How many numbers go into each layer, by the name of its shard. All give ``ROWS * world_size``."""
    whole = ROWS * world_size
    return {"shard": 5, "second shard": whole} if kind == ROW else {"shard": whole if kind == SQUARE else 5}


def _weights(kind: str, world_size: int, number: int) -> dict[str, Tensor]:
    return {
        name: made(f"{kind} {name} {number}", ROWS * world_size, width) / 2
        for name, width in _widths(kind, world_size).items()
    }


def start(kind: str, rank: int, world_size: int, number: int) -> UnitStart:
    """``number`` tells the steps of one rank apart: each has other inputs and other weights."""
    weights = _weights(kind, world_size, number)
    size = 2 if kind == SQUARE else 1 + rank
    shapes = {"x": (size, weights["shard"].size(1))} | ({"second x": (2, 5)} if kind == TWICE else {})
    inputs = {name: made(f"{kind} {name} {rank} {number}", *shape) for name, shape in shapes.items()}
    shards = {name: weight.chunk(world_size)[rank].clone() for name, weight in weights.items()}
    return UnitStart(inputs, shards, (*([] if kind == ROW else inputs), *shards))


def use(kind: str, through: Callable[[Tensor, Tensor], Any], given: Mapping[str, Tensor]) -> list[Any]:
    """The outputs of a trial, from which it goes back one after the other.

    What is no output of a layer (see ``through``) ends it.
    """
    y = through(given["x"], given["shard"])
    if kind == TWICE:
        return [y, through(given["second x"], given["shard"])]
    return [through(torch.tanh(y), given["second shard"]) if kind == ROW else y]


def loss_of(output: Tensor) -> Tensor:
    """A loss whose gradient is another one wherever the output is."""
    return weighted_sum(torch.sin(output))


@lru_cache(maxsize=64)
def on_one_device(kind: str, rank: int, world_size: int) -> tuple[list[Tensor], dict[str, Tensor]]:
    """The outputs of the last step of a rank, and by name the gradients of *its own* loss, of weights all rows."""
    begun = start(kind, rank, world_size, 1)
    leaves = {**begun.inputs, **_weights(kind, world_size, 1)}
    for name in begun.learning:
        leaves[name] = leaves[name].requires_grad_()
    outputs = use(kind, lambda x, weight: x @ weight.T, leaves)
    loss = torch.stack([loss_of(output) for output in outputs]).sum()
    gradients = torch.autograd.grad(loss, [leaves[name] for name in begun.learning])
    return [output.detach() for output in outputs], dict(zip(begun.learning, gradients, strict=True))


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    """The report of a right answer."""

    def expected(rank: int, world_size: int) -> dict[str, Any]:
        outputs, gradients = on_one_device(kind, rank, world_size)
        of_all = [on_one_device(kind, other, world_size)[1] for other in range(world_size)]
        for name in _widths(kind, world_size):
            mean = torch.stack([each[name] for each in of_all]).mean(dim=0)
            gradients = {**gradients, name: mean.chunk(world_size)[rank]}
        return reported_of(outputs, gradients, FORWARD_NEEDS, BACKWARD_NEEDS, manners(), Left())

    return expected


def reported_of(
    outputs: list[Tensor],
    gradients: Mapping[str, Any],
    forward: str,
    backward: str,
    manners: Mapping[str, Any],
    left: Left,
    came: str = AS_IT_WAS,
) -> dict[str, Any]:
    """The report, in the order in which a difference is looked for; several outputs become one tensor."""
    output = outputs[0] if len(outputs) == 1 else torch.cat([one.flatten() for one in outputs])
    more = {BETWEEN: left.between, AFTER: left.after, CAME: came, **manners}
    return reported(output, gradients, forward, backward, more)
