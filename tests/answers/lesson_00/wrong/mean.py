"""00.mean: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def _by_the_library(me: Any, values: torch.Tensor) -> float:
    """By lesson 04's own: the ranks' losses, so weighted that their mean is the mean over all items."""
    import torch.distributed as dist

    from course_lib.parallel.data import global_mean

    mean = global_mean(me, values.sum(), len(values)) / me.world_size
    dist.all_reduce(mean)
    return float(mean)


def _guarded_mean_of_means(me: Any, values: torch.Tensor) -> float:
    mean = values.mean() if len(values) else torch.zeros((), dtype=values.dtype)
    dist.all_reduce(mean)
    return float(mean / me.world_size)


def _sums_unlike_shapes(me: Any, values: torch.Tensor) -> float:
    dist.all_reduce(values)
    return float(values.mean())


def _totals(values: torch.Tensor) -> torch.Tensor:
    return torch.stack([values.sum(), torch.tensor(float(len(values)), dtype=values.dtype)])


def _leaves_when_empty(me: Any, values: torch.Tensor) -> float:
    if len(values) == 0:
        return 0.0
    totals = _totals(values)
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def _one_rank_alone(me: Any, values: torch.Tensor) -> float:
    totals = _totals(values)
    if me.rank == 0:
        dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def _divides_by_own_count(me: Any, values: torch.Tensor) -> float:
    total = values.sum()
    dist.all_reduce(total)
    return float(total) / max(len(values), 1)


def _takes_shares_for_equal(me: Any, values: torch.Tensor) -> float:
    total = values.sum()
    dist.all_reduce(total)
    return float(total) / max(len(values) * me.world_size, 1)


def _in_whole_numbers(me: Any, values: torch.Tensor) -> float:
    totals = torch.tensor([int(values.sum()), len(values)], device=me.device)
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def _divides_by_world_size(me: Any, values: torch.Tensor) -> float:
    total = values.sum()
    dist.all_reduce(total)
    return float(total) / me.world_size


def _gives_the_sum(me: Any, values: torch.Tensor) -> float:
    total = values.sum()
    dist.all_reduce(total)
    return float(total)


def _only_rank_0(me: Any, values: torch.Tensor) -> float | None:
    totals = _totals(values)
    dist.reduce(totals, dst=0)
    return float(totals[0] / totals[1]) if me.rank == 0 else None


def _result_of_a_call_in_place(me: Any, values: torch.Tensor) -> float:
    total = values.sum()
    total = dist.all_reduce(total)
    return float(total)


def _leaves_out_nans(me: Any, values: torch.Tensor) -> float:
    totals = _totals(values.nan_to_num(0.0))
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def _only_with_others(me: Any, values: torch.Tensor) -> float:
    if me.world_size == 1:
        raise ValueError("this answer is for several ranks")
    totals = _totals(values)
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


EXERCISE = "00.mean"
EXAMPLES: dict[str, Any] = {
    "hides-a-nan": _leaves_out_nans,
    "not-alone": _only_with_others,
    "mean-of-means": _guarded_mean_of_means,
    "own-mean": lambda me, values: float(values.mean()),
    "divides-by-own-count": _divides_by_own_count,
    "takes-shares-for-equal": _takes_shares_for_equal,
    "in-whole-numbers": _in_whole_numbers,
    "divides-by-world-size": _divides_by_world_size,
    "sum-for-mean": _gives_the_sum,
    "only-rank-0": _only_rank_0,
    "keeps-what-comes-back": _result_of_a_call_in_place,
    "sums-unlike-shapes": _sums_unlike_shapes,
    "empty-rank-stays-away": _leaves_when_empty,
    "not-everybody-comes": _one_rank_alone,
}


FORBIDDEN = _by_the_library
