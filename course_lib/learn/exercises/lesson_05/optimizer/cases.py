"""05.optimizer: the models on which an answer is tried, their gradients, and what AdamW on one device makes of them.

Numbers are float64. AdamW divides by the size of its gradients, so that a factor on them hardly shows, but where they
are as small as its ``eps``: these gradients have sizes from 1 to 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn

from course_lib.cost.data_parallel.sharded import shared_numel
from course_lib.learn.judging.compare import close_to

__all__ = [
    "CLOSE",
    "DIVIDES",
    "KINDS",
    "LR",
    "MOST_PARTS",
    "ONE",
    "SHAPES",
    "SMALL",
    "STEPS",
    "UNEVEN",
    "Trajectory",
    "flat",
    "gradient",
    "mean",
    "num_all",
    "num_own",
    "start",
    "start_of_another",
    "steps_of",
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
Trajectory = list[Tensor]  # the weights after each step, (P,)
CLOSE = close_to(1e-9, 1e-11)


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


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All numbers in a row."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])
