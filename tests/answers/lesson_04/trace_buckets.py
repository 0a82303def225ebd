"""04.trace_buckets: which parameters PyTorch's DDP puts into which bucket."""

from __future__ import annotations

import itertools

from answer_table import Row


def an_open_bucket(sizes, first_limit, limit):
    buckets, bucket, num_bytes, full = [], [], 0, first_limit
    for place in reversed(range(len(sizes))):
        bucket.append(place)
        num_bytes += sizes[place]
        if num_bytes >= full:
            buckets.append(bucket)
            bucket, num_bytes, full = [], 0, limit
    return [*buckets, bucket] if bucket else buckets


def one_after_the_other(sizes, first_limit, limit):
    bucket, size = [], 0
    for place, one in reversed(list(enumerate(sizes))):
        bucket, size = [place, *bucket], size + one
        if size >= first_limit:
            yield tuple(bucket)
            bucket, size, first_limit = [], 0, limit
    if bucket:
        yield tuple(bucket)


def by_calling_itself(sizes, first_limit, limit):
    if not sizes:
        return []
    totals = itertools.accumulate(reversed(sizes))
    count = next((number for number, total in enumerate(totals, 1) if total >= first_limit), len(sizes))
    first = len(sizes) - count
    return [range(first, len(sizes)), *by_calling_itself(sizes[:first], limit, limit)]


def from_a_copy_that_shrinks(sizes, first_limit, limit):
    left, buckets = list(sizes), []
    while left:
        bucket, full = set(), limit if buckets else first_limit
        size = 0
        while left and size < full:
            bucket.add(len(left) - 1)
            size += left.pop()
        buckets.append(bucket)
    return buckets


def the_list_itself_shrinks(sizes, first_limit, limit):
    buckets = []
    while sizes:
        bucket, full, size = [], limit if buckets else first_limit, 0
        while sizes and size < full:
            bucket.append(len(sizes) - 1)
            size += sizes.pop()
        buckets.append(bucket)
    return buckets


kept: list = []


def into_a_list_that_stays(sizes, first_limit, limit):
    kept.extend(an_open_bucket(sizes, first_limit, limit))
    return kept


def as_one_flat_list(sizes, first_limit, limit):
    return [place for bucket in an_open_bucket(sizes, first_limit, limit) for place in bucket]


def as_a_dictionary(sizes, first_limit, limit):
    return dict(enumerate(an_open_bucket(sizes, first_limit, limit)))


def leaves_out_what_has_no_numbers(sizes, first_limit, limit):
    buckets = an_open_bucket(sizes, first_limit, limit)
    return [[place for place in bucket if sizes[place]] for bucket in buckets]


def pairs_of_place_and_size(sizes, first_limit, limit):
    return [[(place, sizes[place]) for place in bucket] for bucket in an_open_bucket(sizes, first_limit, limit)]


def always_both_limits(sizes, first_limit, limit):
    return an_open_bucket(sizes, min(first_limit, limit), max(first_limit, limit))


def loses_the_last_in_other_words(sizes, first_limit, limit):
    return [one for one in an_open_bucket(sizes, first_limit, limit)
            if sum(sizes[place] for place in one) >= min(first_limit, limit)]  # fmt: skip


ROWS = [
    Row(answer=an_open_bucket, verdict="passed", why="the rule, step by step"),
    Row(answer=one_after_the_other, verdict="passed", why="a generator of tuples, in the order of the model"),
    Row(answer=by_calling_itself, verdict="passed", why="ranges hold places too"),
    Row(answer=from_a_copy_that_shrinks, verdict="passed", why="sets: the order within a bucket is up to the reader"),
    Row(
        answer=the_list_itself_shrinks,
        verdict="not yet",
        words=("changed what it was given",),
        why="the sizes are needed afterwards",
    ),
    Row(answer=into_a_list_that_stays, verdict="not yet", why="a second model gets the first one's buckets as well"),
    Row(answer=as_one_flat_list, verdict="not yet", words=("a list of buckets",), why="nobody sees where one ends"),
    Row(answer=as_a_dictionary, verdict="not yet", words=("a list of buckets",), why="a list was asked for"),
    Row(answer=leaves_out_what_has_no_numbers, verdict="not yet", why="every parameter has a bucket"),
    Row(answer=pairs_of_place_and_size, verdict="not yet", words=("a list of places",), why="places were asked for"),
    Row(answer=always_both_limits, verdict="not yet", why="a first limit may be the larger one"),
    Row(answer=loses_the_last_in_other_words, verdict="not yet", why="what is not full has to leave too"),
]
