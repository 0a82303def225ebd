"""The cases of 00.share, and what is said of a share that is not as expected."""

from __future__ import annotations

from typing import Any

from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.judging.call_order import DependsOnOrder, asked_in_both_orders
from course_lib.learn.judging.compare import short

__all__ = ["CASES", "SIZES", "Shares", "all_shares", "shares_difference"]

Shares = list[Any]  # of ranges, one a rank; and of whatever a wrong answer gives

# Items and ranks. The first one that is wrong is shown, so small and telling ones come first.
SIZES = (
    (8, 4), (10, 4), (11, 4), (3, 4), (10, 1), (7, 2), (10, 3), (12, 3), (13, 5), (5, 5), (2, 5), (17, 6), (20, 7),
    (31, 8), (9, 16), (64, 16), (0, 3), (1, 1), (100, 9), (1001, 3), (1437, 4), (60_000, 7), (100_003, 12),
)  # fmt: skip


def _in_words(num_items: int, world_size: int) -> str:
    return f"{num_items:,} item{'s' * (num_items != 1)} on {world_size} rank{'s' * (world_size != 1)}"


def all_shares(answer: Any, num_items: int, world_size: int) -> Shares:
    """The answer of every rank in turn, and once more from the last to the first."""
    return asked_in_both_orders(answer, [(num_items, rank, world_size) for rank in range(world_size)])


def _shares(num_items: int, world_size: int) -> Shares:
    """By dealing one to each rank in turn: how many each has then is how many it takes, as a block."""
    sizes = [len(range(rank, num_items, world_size)) for rank in range(world_size)]
    return [range(sum(sizes[:rank]), sum(sizes[: rank + 1])) for rank in range(world_size)]


def shares_difference(expected: Shares, got: Shares) -> str:
    """The first rank whose share is not as expected, in words."""
    for rank, (want, have) in enumerate(zip(expected, got, strict=True)):
        if isinstance(have, DependsOnOrder):
            return f"for rank {rank} {have}"
        if have is None:
            return f"for rank {rank} nothing came back (`None`); a function gives its result with `return`"
        if not isinstance(have, range):
            return f"for rank {rank} a `range` is asked for, and {short(have)} came"
        if want != have:
            return f"rank {rank} should take {_items(want)} and takes {_items(have)}"
    return ""


def _items(part: range) -> str:
    if len(part) == 0:
        return "nothing"
    if part.step != 1 or len(part) == 1:
        return f"item {part[0]}" if len(part) == 1 else f"the items of {part!r}"
    return f"items {part[0]} to {part[-1]}"


CASES = tuple(Case(_in_words(n, w), (n, w), _shares) for n, w in SIZES)
