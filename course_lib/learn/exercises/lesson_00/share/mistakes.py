"""Usual wrong answers to 00.share. Each is known by giving, in every case, the shares that such an answer gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_00.share.cases import SIZES, all_shares

__all__ = ["MISTAKES"]

# -- examples ----------------------------------------------------------------------------------------------------------


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


def _rounds_up(num_items: int, rank: int, world_size: int) -> range:
    size = -(-num_items // world_size)
    return range(min(rank * size, num_items), min((rank + 1) * size, num_items))


def _includes_the_end(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    start = rank * base + min(rank, extra)
    return range(start, start + base + (rank < extra) + 1)


def _stops_too_early(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    start = rank * base + min(rank, extra)
    return range(start, start + base + (rank < extra) - 1)


def _one_extra_too_many(num_items: int, rank: int, world_size: int) -> range:
    base, extra = divmod(num_items, world_size)
    start = rank * base + min(rank, extra)
    return range(start, start + base + (rank <= extra))


def _counts_from_one(num_items: int, rank: int, world_size: int) -> range:
    size = num_items // world_size
    return range((rank + 1) * size, (rank + 2) * size)


def _rank_for_world_size(num_items: int, rank: int, world_size: int) -> range:
    size = num_items // max(rank, 1)
    return range(rank * size, (rank + 1) * size)


def _in_turn(num_items: int, rank: int, world_size: int) -> range:
    return range(rank, num_items, world_size)


def _everything(num_items: int, rank: int, world_size: int) -> range:
    return range(num_items)


# -- what they are known by --------------------------------------------------------------------------------------------


def _mistake(name: str, message: str, example: Callable[..., Any], *others: Callable[..., Any]) -> Mistake:
    """Known by giving what the example gives in every case, or what one of the others gives."""
    return Mistake(name, message, example, _like_one_of(example, *others))


def _like_one_of(*wrong: Callable[..., Any]) -> Callable[[Evidence], bool]:
    def recognise(seen: Evidence) -> bool:
        given = [outcome.got for outcome in seen.outcomes]
        return any(given == [all_shares(one, *size) for size in SIZES] for one in wrong)

    return recognise


def _a_fair_deal(seen: Evidence) -> bool:
    """Whether every deal is one of blocks in order, of all items, none longer than another by more than one."""
    return all(_is_fair(outcome.got, sum(map(len, outcome.expected))) for outcome in seen.outcomes)


def _is_fair(shares: list[Any], num_items: int) -> bool:
    done = 0
    for share in shares:
        if not isinstance(share, range) or share.step != 1 or (len(share) and share.start != done):
            return False
        done += len(share)
    sizes = [len(share) for share in shares]
    return done == num_items and max(sizes) - min(sizes) <= 1


def _right_but_no_range(seen: Evidence) -> bool:
    """Whether the items are right everywhere, and not one share is a ``range``."""
    for one in seen.outcomes:
        shares = [[int(item) for item in share] for share in one.got if not isinstance(share, range)]
        if len(shares) != len(one.got) or shares != [list(share) for share in one.expected]:
            return False
    return True


MISTAKES = (
    _mistake(
        "drops-the-rest",
        "Some items belong to nobody: `num_items // world_size` throws the remainder away. With 10 items on 4 "
        "ranks two of them are never seen.",
        _drops_the_rest,
    ),
    _mistake(
        "last-takes-the-rest",
        "Every item has an owner, but the last rank takes the whole remainder. The others then wait for it. "
        "Shares should differ by one item at most.",
        _last_takes_the_rest,
    ),
    _mistake(
        "rounds-up",
        "You round the share up, as `torch.chunk` does: with 10 items on 4 ranks that gives 3, 3, 3, 1, and the "
        "last rank idles. Shares should differ by one item at most: 3, 3, 2, 2.",
        _rounds_up,
    ),
    _mistake(
        "extras-shift-the-start",
        "The first ranks take one more, and that moves everybody after them. A rank begins later by one for each "
        "rank before it that took one more, by no more and no fewer.",
        _right_until_the_extras_end,
        _forgets_the_extras_before,
        _all_extras_before,
    ),
    Mistake(
        "extras-elsewhere",
        "A fair deal: no item is lost, and no share is too long. But your extra items fall to other ranks; here the "
        "first ranks take them, as in the picture.",
        recognise=_a_fair_deal,
    ),
    _mistake(
        "overlaps",
        "Neighbouring ranks share an item: your share ends one too late. A `range` stops before its end, so the "
        "start of the next rank is the end of this one.",
        _includes_the_end,
    ),
    _mistake(
        "stops-too-early",
        "The last item of each share is missing. A `range` stops before its end already, so the end is the start plus "
        "the number of items, with nothing taken off.",
        _stops_too_early,
    ),
    _mistake(
        "one-extra-too-many",
        "One rank too many takes one more, and so an item belongs to two ranks. Ranks are counted from 0: the first "
        "two are ranks 0 and 1, those *below* 2. With 8 items on 4 ranks nothing is left over, and nobody takes more.",
        _one_extra_too_many,
    ),
    _mistake(
        "length-for-end",
        "Rank 0 is right and the others are too short or empty: the second number of a `range` is where it ends. "
        "You gave how many items there are. The end is the start plus the length.",
        _length_for_end,
    ),
    _mistake(
        "counts-from-one",
        "The first items belong to nobody. Ranks are counted from 0: rank 0 begins with item 0.",
        _counts_from_one,
    ),
    _mistake(
        "rank-for-world-size",
        "The size of a share follows from how many ranks there are (`world_size`), not from which rank this is "
        "(`rank`).",
        _rank_for_world_size,
    ),
    _mistake(
        "deals-in-turn",
        "A fair deal, one item to each rank in turn; `DistributedSampler` does so too. Here each rank is to take "
        "one block of neighbours, since neighbours on disk are read together.",
        _in_turn,
    ),
    _mistake(
        "takes-everything",
        "Every rank takes every item, so the work is done `world_size` times. The share must depend on `rank`.",
        _everything,
    ),
    Mistake(
        "list-for-range",
        "The items are right, and they do not come as a `range`. A `range` holds two numbers however long the share "
        "is, and the cells below ask it for its `start` and its `stop`.",
        recognise=_right_but_no_range,
    ),
)
