"""Exercise 00.share: which items are mine?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from course_lib.learn.apart import by_cases_apart
from course_lib.learn.compare import short
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake

__all__ = ["SHARE"]

Parts = list[list[int]]
_CASES = [(8, 4), (10, 4), (11, 4), (3, 4), (10, 1)]  # items, ranks


# ---------------------------------------------------------------------------


def _all_shares(answer: Any, num_items: int, world_size: int) -> Parts:
    """The answer of every rank in turn; what is no range or list stays as it is, to be named below."""
    parts = [answer(num_items, rank, world_size) for rank in range(world_size)]
    return [list(part) if isinstance(part, Iterable) else part for part in parts]


def _shares(num_items: int, world_size: int) -> Parts:
    return [part.tolist() for part in torch.arange(num_items).tensor_split(world_size)]


def _shares_difference(expected: Parts, got: Any) -> str:
    """The first rank whose share is not as expected, in words."""
    for rank, (want, have) in enumerate(zip(expected, got, strict=True)):
        if have is None:
            return f"for rank {rank} nothing came back (`None`); a function gives its result with `return`"
        if not isinstance(have, list):
            return f"for rank {rank} a `range` is asked for, and {short(have)} came"
        if want != have:
            return f"rank {rank} should take {short(want)} and takes {short(have)}"
    return ""


def _drops_the_rest(num_items: int, rank: int, world_size: int) -> range:
    size = num_items // world_size
    return range(rank * size, (rank + 1) * size)


def _last_takes_the_rest(num_items: int, rank: int, world_size: int) -> range:
    size = num_items // world_size
    return range(rank * size, num_items if rank == world_size - 1 else (rank + 1) * size)


def _forgets_the_extras_before(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    return range(rank * base, rank * base + base + (rank < extra))


def _right_until_the_extras_end(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    size = base + (rank < extra)
    return range(rank * size, (rank + 1) * size)


def _length_for_end(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    return range(rank * base + min(rank, extra), base + (rank < extra))


def _all_extras_before(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    start = rank * base + extra
    return range(start, start + base + (rank < extra))


def _like_one_of(*wrong: Any) -> Any:
    """Whether an answer gave, in every case, what one of these gives."""

    def recognise(seen: Evidence) -> bool:
        given = [outcome.got for outcome in seen.outcomes]
        return any(given == [_all_shares(one, n, w) for n, w in _CASES] for one in wrong)

    return recognise


def _rounds_up(num_items: int, rank: int, world_size: int) -> range:
    size = -(-num_items // world_size)
    return range(min(rank * size, num_items), min((rank + 1) * size, num_items))


def _includes_the_end(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    start = rank * base + min(rank, extra)
    return range(start, start + base + (rank < extra) + 1)


def _counts_from_one(num_items: int, rank: int, world_size: int) -> range:
    size = num_items // world_size
    return range((rank + 1) * size, (rank + 2) * size)


def _rank_for_world_size(num_items: int, rank: int, world_size: int) -> range:
    size = num_items // max(rank, 1)
    return range(rank * size, (rank + 1) * size)


SHARE = Exercise(
    name="00.share",
    title="Deal out the items",
    judge=by_cases_apart(
        [Case(f"{n} items on {w} rank{'s' * (w > 1)}", (n, w), _shares) for n, w in _CASES],
        call=_all_shares,
        compare=_shares_difference,
    ),
    mistakes=(
        Mistake(
            "drops-the-rest",
            "Some items belong to nobody: `num_items // world_size` throws the remainder away. With 10 items on 4 "
            "ranks two of them are never seen. Give one more to each of the first `num_items % world_size` ranks.",
            _drops_the_rest,
        ),
        Mistake(
            "last-takes-the-rest",
            "Every item has an owner, but the last rank takes the whole remainder. The others then wait for it. "
            "Shares should differ by one item at most.",
            _last_takes_the_rest,
        ),
        Mistake(
            "rounds-up",
            "You round the share up, as `torch.chunk` does: with 10 items on 4 ranks that gives 3, 3, 3, 1, and the "
            "last rank idles. Shares should differ by one item at most: 3, 3, 2, 2.",
            _rounds_up,
        ),
        Mistake(
            "extras-shift-the-start",
            "The first ranks take one more, and that moves everybody after them: a rank begins later by one for each "
            "rank before it that took one more. That is `min(rank, extra)` items, no more and no fewer.",
            _right_until_the_extras_end,
            _like_one_of(_right_until_the_extras_end, _forgets_the_extras_before, _all_extras_before),
        ),
        Mistake(
            "extras-elsewhere",
            "A fair deal: no item is lost, and no share is too long. But your extra items fall to ranks in the middle "
            "and at the end; here the first ranks take them, as in the picture.",
            lambda num_items, rank, world_size: range(
                rank * num_items // world_size, (rank + 1) * num_items // world_size
            ),
        ),
        Mistake(
            "overlaps",
            "Neighbouring ranks share an item: your share ends one too late. A `range` stops before its end, so the "
            "start of the next rank is the end of this one.",
            _includes_the_end,
        ),
        Mistake(
            "length-for-end",
            "Rank 0 is right and the others are too short or empty: the second number of a `range` is where it ends, "
            "and you gave how many items there are. The end is the start plus the length.",
            _length_for_end,
        ),
        Mistake(
            "counts-from-one",
            "The first items belong to nobody. Ranks are counted from 0: rank 0 begins with item 0.",
            _counts_from_one,
        ),
        Mistake(
            "rank-for-world-size",
            "The size of a share follows from how many ranks there are (`world_size`), not from which rank this is "
            "(`rank`).",
            _rank_for_world_size,
        ),
        Mistake(
            "deals-in-turn",
            "A fair deal, one item to each rank in turn; `DistributedSampler` does so too. Here each rank is to take "
            "one block of neighbours, since neighbours on disk are read together.",
            lambda num_items, rank, world_size: range(rank, num_items, world_size),
        ),
        Mistake(
            "takes-everything",
            "Every rank takes every item, so the work is done `world_size` times. The share must depend on `rank`.",
            lambda num_items, rank, world_size: range(num_items),
        ),
    ),
    hints=(
        "Everybody gets `num_items // world_size` items. How many are left over, and who gets one more?",
        "The first `extra = num_items % world_size` ranks get one more. So before rank r lie r whole shares, and one "
        "extra item for each of the ranks before r that got one: `min(r, extra)` of them.",
        "With `base, extra = divmod(num_items, world_size)`: start = rank * base + min(rank, extra), and the share has "
        "base + (rank < extra) items.",
    ),
    forbidden=("torch.tensor_split", "torch.Tensor.tensor_split", "numpy.array_split"),
    forbidden_example=lambda num_items, rank, world_size: (
        torch.arange(num_items).tensor_split(world_size)[rank].tolist()
    ),
    passed="Every item has one owner, in order, and no rank has more than one item more than another.",
)
