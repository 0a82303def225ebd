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
]
