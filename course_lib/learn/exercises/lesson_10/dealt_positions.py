"""Positions that an answer deals out to ranks: as lists, whatever they came as, and whether each has one owner."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from course_lib.learn.judging.compare import Difference, short

__all__ = ["FALLS", "MISSING", "DealtParts", "fault_in_owners", "not_positions", "plain_positions"]

FALLS, MISSING = "falls", "missing"  # kinds of differences


class DealtParts(list[Any]):
    """What came for each rank; ``note`` is what the answer does besides, in words."""

    note = ""


def plain_positions(given: Any, num_tokens: int) -> Any:
    """The positions as a list, whether they came as a tuple, an array, a range or a generator."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, Iterator):
        given = [one for one, _ in zip(given, range(num_tokens + 1), strict=False)]  # it may never end
    if isinstance(given, tuple | range):
        given = list(given)
    return [_index(one) for one in given] if isinstance(given, list) else given


def _index(value: Any) -> Any:
    """Whole numbers of other libraries as those of Python."""
    if isinstance(value, bool | float):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value


def not_positions(parts: Sequence[Any]) -> str:
    """What came in place of a list of positions, in words; empty where lists came."""
    for rank, own in enumerate(parts):
        if own is ...:
            return f"rank {rank} got `...` in place of positions"
        if own is None:
            return "nothing came back (`None`); a function gives its result with `return`"
        if not isinstance(own, list):
            return f"expected a list of positions such as [0, 1, 2] for rank {rank}, got {short(own)}"
    return ""


def fault_in_owners(parts: Sequence[Sequence[Any]], num_tokens: int) -> str:
    """What is wrong with who has which position, in words; empty where each has one owner and all lists rise."""
    for rank, own in enumerate(parts):
        if said := _fault_of_one(rank, own, num_tokens):
            return said
    return _fault_of_all(parts, num_tokens)


def _fault_of_one(rank: int, own: Sequence[Any], num_tokens: int) -> str:
    for position in own:
        if not _is_whole(position):
            return f"rank {rank} has {short(position)} among its positions, which is no whole number"
        if not 0 <= position < num_tokens:
            there = f"positions are 0 to {num_tokens - 1}" if num_tokens else "there are none"
            return f"rank {rank} has position {position}, and {there}"
    for one, following in pairwise(own):
        if one == following:
            return f"rank {rank} has position {one} twice"
        if one > following:
            return Difference(f"rank {rank} has position {one} before {following}, and they are to rise", FALLS)
    return ""


def _fault_of_all(parts: Sequence[Sequence[int]], num_tokens: int) -> str:
    owner: dict[int, int] = {}
    for rank, own in enumerate(parts):
        for position in own:
            if position in owner:
                return f"position {position} is with rank {owner[position]} and with rank {rank}"
            owner[position] = rank
    missing = [position for position in range(num_tokens) if position not in owner]
    if missing:
        others = len(missing) - 1
        more = f", and {others} more {'is' if others == 1 else 'are'} missing" if others else ""
        return Difference(f"no rank has position {missing[0]}{more}", MISSING)
    return ""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
