"""05.optimizer: the weights that usual wrong answers make, computed on one device.

Each model is a function of the case, the rank and the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import permutations
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_05.optimizer.cases import (
    LR,
    STEPS,
    Trajectory,
    gradient,
    mean,
    num_all,
    start,
    steps_of,
)


@lru_cache(maxsize=64)
def scaled(factor_of: Callable[[int], float], kind: str, rank: int, size: int) -> Trajectory:
    """The mean gradient, times a factor that depends on the number of ranks."""
    return steps_of(kind, lambda step: factor_of(size) * mean(kind, size, step))


def summed(size: int) -> float:
    return size


def divided_twice(size: int) -> float:
    return 1 / size


def divided_by(divisor: int, size: int) -> float:
    return size / divisor


BY_A_CONSTANT = {divisor: partial(divided_by, divisor) for divisor in (2, 4, 3, 5, 8)}


def padded(numbers: Tensor, size: int) -> Tensor:
    """(size, K)"""
    return nn.functional.pad(numbers, (0, -len(numbers) % size)).view(size, -1)


@lru_cache(maxsize=64)
def own_gradients_for_own_part(kind: str, rank: int, size: int) -> Trajectory:
    def mixed(step: int) -> Tensor:
        parts = [padded(gradient(kind, owner, step), size)[owner] for owner in range(size)]
        return torch.cat(parts)[: num_all(kind)]

    return steps_of(kind, mixed)


@lru_cache(maxsize=64)
def all_by_own_gradients(kind: str, rank: int, size: int) -> Trajectory:
    return steps_of(kind, lambda step: gradient(kind, rank, step))


def of_rank_0(kind: str, rank: int, size: int) -> Trajectory:
    return all_by_own_gradients(kind, 0, size)


@lru_cache(maxsize=64)
def mean_of_weights(kind: str, rank: int, size: int) -> Trajectory:
    """Each rank steps by its own gradients; then the weights are averaged."""
    models = [nn.Parameter(start(kind).clone()) for _ in range(size)]
    optimizers = [torch.optim.AdamW([model], lr=LR) for model in models]
    seen = []
    for step in range(STEPS):
        for each, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            model.grad = gradient(kind, each, step).clone()
            optimizer.step()
        average = torch.stack([model.detach() for model in models]).mean(dim=0)
        for model in models:
            model.data.copy_(average)
        seen.append(average)
    return seen


def never_moved(kind: str, rank: int, size: int) -> Trajectory:
    return [start(kind)] * STEPS


def one_step_late(kind: str, rank: int, size: int) -> Trajectory:
    return [start(kind), *mean_steps(kind, size)[:-1]]


@lru_cache(maxsize=64)
def mean_steps(kind: str, size: int, **more: Any) -> Trajectory:
    return steps_of(kind, lambda step: mean(kind, size, step), **more)


def with_states_afresh(kind: str, rank: int, size: int) -> Trajectory:
    return mean_steps(kind, size, is_afresh=True)


def piled_up(kind: str, rank: int, size: int) -> Trajectory:
    return mean_steps(kind, size, piles_up=True)


def by_adam(kind: str, rank: int, size: int) -> Trajectory:
    return mean_steps(kind, size, make=torch.optim.Adam)


def at_rate(lr: float, kind: str, rank: int, size: int) -> Trajectory:
    return mean_steps(kind, size, lr=lr)


def rate_of(after: Tensor, kind: str, size: int) -> float:
    """The learning rate of a first step of AdamW that made these weights, by the number that it moved most."""
    per_rate = 0.01 * start(kind) + mean(kind, size, 0) / (mean(kind, size, 0).abs() + 1e-8)
    place = int(per_rate.abs().argmax())
    return float((start(kind) - after)[place] / per_rate[place])


@lru_cache(maxsize=16)
def mixed_up(kind: str, size: int) -> list[Tensor]:
    """The weights after the first step, where each part holds those of another, or went by the gradients of another."""
    weights, gradients, begin = (
        padded(one, size) for one in (mean_steps(kind, size)[0], mean(kind, size, 0), start(kind))
    )
    found = []
    for order in list(permutations(range(size)))[1:]:
        numbers, own, others = (one[list(order)].flatten()[: num_all(kind)] for one in (weights, gradients, begin))
        found += [numbers, *steps_of(kind, _always(own), num_steps=1)]
        found += steps_of(kind, _always(mean(kind, size, 0)), num_steps=1, begin=others)
    return found


def _always(numbers: Tensor) -> Callable[[int], Tensor]:
    return lambda step: numbers
