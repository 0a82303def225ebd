"""The cases of 00.mean: what each rank holds, and the mean over all of it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from course_lib.learn.catalogue.exercise import Case

__all__ = ["AGAIN", "CASES", "FEW", "MOST_BYTES", "NONE_ON_RANK_0", "ONE_NAN", "numbers"]

NumbersOf = Callable[[int], torch.Tensor]

FEW = "uneven shares"
NONE_ON_RANK_0 = "no number at all on rank 0"
THOUSANDS = "thousands of float32 numbers, zeros among them, and none on rank 1"
ONE_NAN = "a NaN on rank 0"
AGAIN = "a third call, on other shares than the first and other numbers than the second"
MOST_BYTES = 1024  # a sum and a count are 16; a pickled pair from everybody is a few hundred


def numbers(rank: int) -> torch.Tensor:
    """Rank 0 holds one number, rank 1 two, and so on, so that a mean of means is wrong."""
    return torch.sin(1.7 * torch.arange(rank + 1, dtype=torch.float64) + rank) * 3 + 2.5 * rank + 4


def _none_on_rank_0(rank: int) -> torch.Tensor:
    return torch.zeros(0, dtype=torch.float64) if rank == 0 else 30 * (numbers(rank) - 20)


def _thousands(rank: int) -> torch.Tensor:
    count = 0 if rank == 1 else 1001 + 700 * rank
    held = torch.cos(torch.arange(count, dtype=torch.float32)) + rank + 2
    held[::3] = 0  # a zero is a number like any other
    return held


def _with_a_nan(rank: int) -> torch.Tensor:
    held = numbers(rank)
    held[-1] = torch.nan if rank == 0 else held[-1]
    return held


def _other_shares(rank: int) -> torch.Tensor:
    return numbers(2 * rank + 3) - 1


def _case(label: str, held: NumbersOf, *before: NumbersOf) -> Case:
    """The mean of what the ranks hold; before that the answer is called with each of ``before``.

    A rank that is alone has numbers in every case: without any there is no mean.
    """

    def of(rank: int, world_size: int) -> torch.Tensor:
        return held(rank) if world_size > 1 else numbers(3)

    return Case(
        label,
        lambda rank, world_size: (of(rank, world_size), *(one(rank) for one in before)),
        lambda rank, world_size: float(torch.cat([of(r, world_size).double() for r in range(world_size)]).mean()),
    )


CASES = (
    _case(FEW, numbers),
    _case(NONE_ON_RANK_0, _none_on_rank_0),
    _case(THOUSANDS, _thousands),
    _case(ONE_NAN, _with_a_nan),
    _case(AGAIN, _other_shares, numbers, lambda rank: 2 * _other_shares(rank)),
)
