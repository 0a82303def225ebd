"""00.mean: the mean over all numbers of all ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answer_table import Row


def sums_and_counts(me, values):
    totals = torch.stack([values.sum(), torch.tensor(float(len(values)), dtype=values.dtype)])
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def as_a_tensor(me, values):
    return torch.tensor(sums_and_counts(me, values))


def without_nans(me, values):
    totals = torch.stack([values.nansum(), torch.tensor(float(len(values)), dtype=values.dtype)])
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def nobody_waits(me, values):
    totals = torch.stack([values.sum(), torch.tensor(float(len(values)), dtype=values.dtype)])
    dist.all_reduce(totals, async_op=True)
    return float(totals[0] / totals[1])


def seeds_everything(me, values):
    torch.manual_seed(0)
    return sums_and_counts(me, values)


def keeps_the_numbers(me, values, seen=[]):  # noqa: B006
    seen.append(values)
    return sums_and_counts(me, values)


def keeps_the_mean_of_a_shape(me, values, means={}):  # noqa: B006
    if values.shape not in means:
        means[values.shape] = sums_and_counts(me, values)
    return means[values.shape]


def shares_by_rank_0(me, values):
    totals = torch.tensor([float(values.sum()), float(len(values))], dtype=torch.float64)
    dist.reduce(totals, dst=0)
    mean = totals[:1] / totals[1:]
    dist.broadcast(mean, src=0)
    return float(mean)


def one_number_at_least(me, values):
    totals = torch.tensor([float(values.sum()), float(max(1, len(values)))], dtype=torch.float64)
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def all_numbers_as_objects(me, values):
    rows = [None] * me.world_size
    dist.all_gather_object(rows, values.tolist())
    every = [value for row in rows for value in row]
    return sum(every) / len(every)


def group_in_each_call(me, values):
    totals = torch.tensor([float(values.sum()), float(len(values))], dtype=torch.float64)
    dist.all_reduce(totals, group=dist.new_group())
    return float(totals[0] / totals[1])


ROWS = [
    Row(answer=sums_and_counts, verdict="passed", why="the definition"),
    Row(answer=as_a_tensor, verdict="passed", why="a tensor of one number is that number"),
    Row(answer=without_nans, verdict="not yet", mistake="hides-a-nan", why="the mean of a NaN and others is NaN"),
    Row(answer=nobody_waits, verdict="not yet", words=("never waited for it",), why="the sums may come later"),
    Row(
        answer=seeds_everything,
        verdict="not yet",
        words=("seeds the random numbers",),
        why="whoever draws after it draws the same numbers each time",
    ),
    Row(
        answer=keeps_the_numbers,
        verdict="not yet",
        words=("still holds a tensor",),
        why="the numbers of all calls stay in memory",
    ),
    Row(answer=shares_by_rank_0, verdict="passed", why="reduce, one division, broadcast"),
    Row(
        answer=keeps_the_mean_of_a_shape,
        verdict="not yet",
        words=("other numbers than the second",),
        why="as many numbers are not the same numbers",
    ),
    Row(
        answer=one_number_at_least,
        verdict="not yet",
        words=("no number at all on rank 0",),
        why="a rank that holds nothing counts nothing",
    ),
    Row(
        answer=all_numbers_as_objects,
        verdict="not yet",
        words=("bytes to its collectives",),
        why="all numbers travel, pickled",
    ),
    Row(
        answer=group_in_each_call,
        verdict="not yet",
        words=("process group that your code made is left behind",),
        why="a group more in each call",
    ),
]
