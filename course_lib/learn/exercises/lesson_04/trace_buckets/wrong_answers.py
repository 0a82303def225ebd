"""Usual wrong answers to 04.trace_buckets, each of which runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from course_lib.learn.exercises.lesson_04.trace_buckets.cases import Buckets

__all__ = [
    "empty_bucket",
    "from_the_front",
    "front_to_back",
    "goes_on_counting",
    "keeps_the_first_limit",
    "loses_the_last",
    "one_limit",
    "only_above",
    "places_from_the_end",
    "sizes_not_places",
    "stays_below",
    "sums_not_places",
]


def _filled(sizes: Sequence[int], first_limit: int, limit: int, *, order: Iterable[int] | None = None,
            resets: bool = True, over: bool = False, keeps_rest: bool = True) -> Buckets:  # fmt: skip
    """The buckets, right but for what the arguments change."""
    buckets: Buckets = []
    bucket: list[int] = []
    size, full = 0, first_limit
    for place in reversed(range(len(sizes))) if order is None else order:
        bucket.append(place)
        size += sizes[place]
        if size > full or (size == full and not over):
            buckets.append(bucket)
            bucket, full = [], limit
            size = 0 if resets else size
    return [*buckets, bucket] if bucket and keeps_rest else buckets


def sizes_not_places(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """What the parameters take, in place of which they are."""
    return [[sizes[place] for place in bucket] for bucket in _filled(sizes, first_limit, limit)]


def sums_not_places(sizes: Sequence[int], first_limit: int, limit: int) -> list[int]:
    """The bytes of each bucket."""
    return [sum(sizes[place] for place in bucket) for bucket in _filled(sizes, first_limit, limit)]


def places_from_the_end(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """Indices of the reversed list."""
    return [[len(sizes) - 1 - place for place in bucket] for bucket in _filled(sizes, first_limit, limit)]


def from_the_front(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """In the order of the model."""
    return _filled(sizes, first_limit, limit, order=range(len(sizes)))


def front_to_back(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """The right buckets, the last to leave first."""
    return _filled(sizes, first_limit, limit)[::-1]


def stays_below(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """A bucket ends before the parameter that would fill it."""
    buckets: Buckets = []
    bucket: list[int] = []
    full = first_limit
    for place in reversed(range(len(sizes))):
        if bucket and sum(sizes[one] for one in bucket) + sizes[place] > full:
            buckets.append(bucket)
            bucket, full = [], limit
        bucket.append(place)
    return [*buckets, bucket] if bucket else buckets


def only_above(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """A bucket at its limit is not full."""
    return _filled(sizes, first_limit, limit, over=True)


def one_limit(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """The first bucket has no limit of its own."""
    return _filled(sizes, limit, limit)


def keeps_the_first_limit(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """The first bucket's limit is that of all."""
    return _filled(sizes, first_limit, first_limit)


def goes_on_counting(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """The bytes are not set back to nought."""
    return _filled(sizes, first_limit, limit, resets=False)


def loses_the_last(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """The bucket that is not full at the end is left out."""
    return _filled(sizes, first_limit, limit, keeps_rest=False)


def empty_bucket(sizes: Sequence[int], first_limit: int, limit: int) -> Buckets:
    """The open bucket is added at the end, whatever it holds."""
    kept = _filled(sizes, first_limit, limit, keeps_rest=False)
    num_kept = sum(map(len, kept))
    return [*kept, list(reversed(range(len(sizes) - num_kept)))]
