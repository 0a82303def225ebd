"""04.trace_buckets: the sizes and limits on which it is tried, and how buckets are compared."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from course_lib.learn.judging.compare import difference, short

__all__ = ["CASES", "Buckets", "compare", "right"]

Buckets = list[list[int]]
_MIB = 2**20


def _many() -> list[int]:
    """Sixty parameters, large and small in no order."""
    dice = random.Random(4)
    return [dice.choice((1, 2, 3, 64, 100, 250)) * dice.randint(1, 9) for _ in range(60)]


CASES: dict[str, tuple[list[int], int, int]] = {  # sizes from the first parameter on, first limit, limit
    "six parameters": ([30, 2, 9, 8, 9, 3], 3, 25),
    "a large last parameter": ([1, 1, 1, 100], 10, 50),
    "a large first parameter": ([100, 1, 4, 4, 2], 2, 8),
    "all in one bucket": ([1, 2, 3], 100, 100),
    "buckets that are just full": ([4, 6, 5, 5, 3, 2], 5, 10),
    "a byte below the limit": ([3, 1, 9, 10, 1, 4], 5, 20),
    "nothing left over": ([12, 7, 12], 10, 15),
    "a first limit above the other": ([5, 5, 5, 5, 5, 5], 12, 4),
    "two equal limits": ([3, 4, 3, 4, 3, 4], 7, 7),
    "parameters of one size": ([8, 8, 8, 8, 8, 8, 8], 8, 20),
    "one parameter that fills none": ([4], 10, 20),
    "one parameter that fills one": ([40], 10, 20),
    "parameters without numbers": ([0, 5, 0, 7, 0], 7, 5),
    "no parameters": ([], 10, 20),
    "sixty parameters": (_many(), 500, 3000),
    "a CNN, with PyTorch's limits": (
        [6912, 256, 294912, 512, 1179648, 1024, 4718592, 2048, 102760448, 16384, 67108864, 16384, 16384000, 4000],
        _MIB,
        25 * _MIB,
    ),
}


def right(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """By the ends of the buckets: places at which the bytes since the last end reach the limit."""
    ends, since, full = [len(sizes)], 0, first_limit
    for place in range(len(sizes) - 1, -1, -1):
        since += sizes[place]
        if since >= full:
            ends, since, full = [*ends, place], 0, limit
    if ends[-1] != 0:
        ends.append(0)
    return [list(range(last - 1, first - 1, -1)) for last, first in itertools.pairwise(ends)]


def _places(bucket: Any) -> list[int] | None:
    """The whole numbers of a bucket, sorted: in which order it holds them is nobody's business."""
    if hasattr(bucket, "tolist"):
        bucket = bucket.tolist()
    if isinstance(bucket, str | bytes | Mapping) or not isinstance(bucket, Collection):  # an iterator is read once
        return None
    try:
        items = list(bucket)
        return None if any(isinstance(one, bool) for one in items) else sorted(map(operator.index, items))
    except TypeError:
        return None


def _buckets(got: Any) -> Buckets | None:
    if hasattr(got, "tolist"):
        got = got.tolist()
    if isinstance(got, str | bytes) or not isinstance(got, Sequence):
        return None
    found = [_places(bucket) for bucket in got]
    return None if any(places is None for places in found) else found  # type: ignore[return-value]


def compare(expected: Any, got: Any) -> str:
    """The first bucket that differs. What holds no buckets, as sums do, is compared as it is."""
    want, have = _buckets(expected), _buckets(got)
    if want is None or got is None:
        return difference(expected, got)
    if have is None:
        return f"expected a list of buckets, each of them a list of places; got {short(got)}"
    for number, (one, other) in enumerate(zip(want, have, strict=False)):
        if one != other:
            return f"bucket {number}: expected the places {short(one[::-1])}, got {short(other[::-1])}"
    if len(want) != len(have):
        return f"expected {len(want)} bucket{'s' * (len(want) != 1)}, got {len(have)}"
    return ""
