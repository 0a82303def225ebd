"""05.optimizer: the models on which an answer is tried, their gradients, and what AdamW on one device makes of them.

Numbers are float64. AdamW divides by the size of its gradients, so that a factor on them hardly shows, but where they
are as small as its ``eps``: these gradients have sizes from 1 to 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cost.data_parallel.sharded import shared_numel
from course_lib.learn.judging.compare import close_to

__all__ = [
    "AN_OPTIMIZER",
    "CLOSE",
    "DIVIDES",
    "GROWTH",
    "HANDED",
    "KINDS",
    "LR",
    "MADE",
    "MOST_PARTS",
    "NOTHING",
    "ONE",
    "OPERATIONS",
    "PARTS",
    "SECOND",
    "SENT",
    "SHAPES",
    "SMALL",
    "STATES",
    "STEPS",
    "UNEVEN",
    "UNWAITED",
    "Trajectory",
    "compare",
    "flat",
    "gradient",
    "mean",
    "num_all",
    "num_own",
    "right",
    "start",
    "start_of_another",
    "steps_of",
    "weights_after",
]

DIVIDES, UNEVEN, ONE = (
    "sizes that divide by the ranks",
    "sizes that do not divide",
    "a model of one number",
)
KINDS = (DIVIDES, UNEVEN, ONE)
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    DIVIDES: ((120, 20), (60,), (60, 3)),  # 2640 = 44 x 60 numbers
    UNEVEN: ((101, 21), (101,), (9,), (3, 5, 2), (1,), (1,)),  # 2263 numbers
    ONE: ((1,),),
}
LR, STEPS = 0.05, 4
MOST_PARTS = 5  # of its own part: weights, their gradient, two states, and one more for whoever needs it
SMALL = 64  # numbers: counts of steps, learning rates and the like
MADE, HANDED, UNWAITED = "what it makes", "what it was given, afterwards", "never waited for"
SENT, PARTS, GROWTH = "sent in a step", "kept beside the model", "numbers more after two more steps"
OPERATIONS, STATES = "operations of a step", "numbers in states of optimizers"  # tell wrong answers apart
SECOND = "the weights of two models, each with an object of its own, after one more step of each"
NOTHING = "nothing"
AN_OPTIMIZER = "an object with a `step`"
Trajectory = list[Tensor]  # the weights after each step, (P,)
CLOSE = close_to(1e-9, 1e-11)


def weights_after(step: int) -> str:
    """Under which word they are reported; the first step is 1."""
    return f"the weights after step {step}"


def num_all(kind: str) -> int:
    """P: how many numbers the model has."""
    return sum(torch.Size(shape).numel() for shape in SHAPES[kind])


def num_own(kind: str, world_size: int) -> int:
    """K: how many a rank may keep as its part. Whoever shares out each tensor by rows pads more than all at once."""
    return shared_numel(SHAPES[kind], world_size)


@lru_cache(maxsize=8)
def start(kind: str) -> Tensor:
    """(P,): the weights of all ranks before the first step."""
    return torch.randn(num_all(kind), generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def start_of_another(kind: str) -> Tensor:
    """(P,): the weights of the model for which a second object is made."""
    return start(kind) + 1


@lru_cache(maxsize=256)
def gradient(kind: str, rank: int, step: int) -> Tensor:
    """(P,): what this rank's backward gives; another on each rank and in each step."""
    draw = torch.Generator().manual_seed(1000 + 10 * rank + step)
    size = 10.0 ** -(torch.arange(num_all(kind), dtype=torch.float64) % 10)
    return size * torch.randn(num_all(kind), generator=draw, dtype=torch.float64)


def mean(kind: str, world_size: int, step: int) -> Tensor:
    """(P,): the gradient of the whole batch."""
    return torch.stack([gradient(kind, rank, step) for rank in range(world_size)]).mean(dim=0)


def steps_of(
    kind: str,
    gradient_of: Callable[[int], Tensor],
    make: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
    *,
    lr: float = LR,
    is_afresh: bool = False,
    piles_up: bool = False,
    num_steps: int = STEPS,
    begin: Tensor | None = None,
) -> Trajectory:
    """The weights after each step of one device. ``is_afresh``: with a new optimizer each time; ``piles_up``:
    gradients are never set back; ``begin``: from other weights.
    """
    weights = nn.Parameter((start(kind) if begin is None else begin).clone())
    optimizer, seen = make([weights], lr=lr), []
    for step in range(num_steps):
        if is_afresh:
            optimizer = make([weights], lr=lr)
        old = weights.grad if piles_up and weights.grad is not None else 0
        weights.grad = gradient_of(step) + old
        optimizer.step()
        seen.append(weights.detach().clone())
    return seen


@lru_cache(maxsize=32)
def _expected(kind: str, world_size: int) -> dict[str, Any]:
    *after, one_more = steps_of(kind, lambda step: mean(kind, world_size, step), num_steps=STEPS + 1)
    another = steps_of(kind, lambda step: mean(kind, world_size, STEPS + 1), num_steps=1, begin=start_of_another(kind))
    most = 2 * (world_size - 1) * num_own(kind, world_size) / num_all(kind)
    return {
        MADE: AN_OPTIMIZER,
        HANDED: NOTHING,
        **{weights_after(step): weights for step, weights in enumerate(after, start=1)},
        UNWAITED: NOTHING,
        SECOND: torch.cat([one_more, *another]),
        SENT: most + 64 / (8 * num_all(kind)),  # room for a flag or two
        PARTS: MOST_PARTS + SMALL / num_own(kind, world_size),
        GROWTH: 0,
    }


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    """What an answer is to report. Of ``SENT``, ``PARTS`` and ``GROWTH``, no more than this."""
    return lambda rank, world_size: _expected(kind, world_size)


def compare(expected: Any, got: Any) -> str:
    """The first difference between two reports, said of the answer."""
    if not isinstance(expected, dict) or not isinstance(got, dict):
        return CLOSE(expected, got)
    for name, want in expected.items():
        if name in (OPERATIONS, STATES):
            continue
        if name not in got:
            return f"{name}: it is missing"
        if found := _differs(name, want, got[name]):
            return found
    return ""


def _differs(name: str, want: Any, come: Any) -> str:
    if name in _NO_MORE:
        return "" if come <= want + 1e-9 else _NO_MORE[name].format(come=come, want=want)
    found = CLOSE(want, come)
    if not found or name not in _IN_WORDS:
        return found and f"{name}: {found}"
    return _IN_WORDS[name].format(come=come)


_NO_MORE = {
    SENT: "the weights are right, and in one step this rank sends {come:.2f} times the bytes of the gradients, "
    "counted as rings send them; a reduce-scatter and an all-gather send {want:.2f} at most, padding included",
    PARTS: "the weights are right, and between two steps this rank keeps beside the model as many numbers as "
    "{come:.1f} of its parts have; the part's weights, their gradient and AdamW's two states are 4",
    GROWTH: "the weights are right, and after two more steps this rank keeps {come} numbers more",
}
_IN_WORDS = {
    MADE: "`ShardedAdamW(me, parameters, lr)` is to give an object with a `step`; what came is {come}",
    HANDED: "something has changed of what your code was given, beside the weights: {come}",
    UNWAITED: "this rank {come}",
}


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All numbers in a row."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])
