"""Exercise 00.mean: a mean over all numbers of all ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from course_lib.learn.compare import close_to
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judge import by_ranks

__all__ = ["MEAN"]


def _numbers(rank: int) -> torch.Tensor:
    """Rank 0 holds one number, rank 1 two, and so on, so that a mean of means is wrong."""
    return torch.arange(rank + 1, dtype=torch.float64) + 10 * rank


def _some_without(rank: int) -> torch.Tensor:
    return torch.zeros(0, dtype=torch.float64) if rank == 0 else _numbers(rank)


def _mean_over(numbers: Any) -> Any:
    return lambda rank, world_size: float(torch.cat([numbers(r) for r in range(world_size)]).mean())


def _guarded_mean_of_means(me: Any, values: torch.Tensor) -> float:
    mean = values.mean() if len(values) else torch.zeros((), dtype=values.dtype)
    dist.all_reduce(mean)
    return float(mean / me.world_size)


def _sums_unlike_shapes(me: Any, values: torch.Tensor) -> float:
    dist.all_reduce(values)
    return float(values.mean())


def _leaves_when_empty(me: Any, values: torch.Tensor) -> float:
    if len(values) == 0:
        return 0.0
    totals = torch.stack([values.sum(), torch.tensor(float(len(values)), dtype=values.dtype)])
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def _hangs(seen: Evidence) -> bool:
    return seen.error is not None and seen.error.kind == "RankTimeout"


def _hangs_on_shapes(seen: Evidence) -> bool:
    return seen.error is not None and "same shape" in seen.error.message + seen.error.story


def _gives_where_some_are_held(wrong: Any) -> Any:
    """Whether an answer gave ``wrong(rank, world_size)`` in the first case: what a rank with none gives may differ."""

    def recognise(seen: Evidence) -> bool:
        held = [o for o in seen.outcomes if o.case.startswith("uneven shares")]
        places = [(rank, world_size) for world_size in (2, 4) for rank in range(world_size)]
        return len(held) == len(places) and all(
            abs(float(o.got) - wrong(*place)) < 1e-5 for o, place in zip(held, places, strict=True)
        )

    return recognise


def _mean_of_rank_means(rank: int, world_size: int) -> float:
    return sum(float(_numbers(r).mean()) for r in range(world_size)) / world_size


def _sum_over_own_count(rank: int, world_size: int) -> float:
    return sum(float(_numbers(r).sum()) for r in range(world_size)) / len(_numbers(rank))


def _divides_by_own_count(me: Any, values: torch.Tensor) -> float:
    total = values.sum()
    dist.all_reduce(total)
    return float(total) / max(len(values), 1)


def _divides_by_world_size(me: Any, values: torch.Tensor) -> float:
    total = values.sum()
    dist.all_reduce(total)
    return float(total) / me.world_size


def _only_rank_0(me: Any, values: torch.Tensor) -> float | None:
    totals = torch.stack([values.sum(), torch.tensor(float(len(values)), dtype=torch.float64)])
    dist.reduce(totals, dst=0)
    return float(totals[0] / totals[1]) if me.rank == 0 else None


def _right_on_rank_0_alone(evidence: Evidence) -> bool:
    on_0 = [outcome for outcome in evidence.outcomes if "rank 0 of" in outcome.case]
    rest = [outcome for outcome in evidence.outcomes if "rank 0 of" not in outcome.case]
    return (
        evidence.error is None
        and bool(on_0 and rest)
        and all(o.right for o in on_0)
        and not all(o.right for o in rest)
    )


MEAN = Exercise(
    name="00.mean",
    title="The mean over all ranks",
    judge=by_ranks(
        (2, 4),
        [
            Case(
                "uneven shares",
                lambda rank, world_size: (_numbers(rank),),
                _mean_over(_numbers),
            ),
            Case(
                "no number at all on rank 0",
                lambda rank, world_size: (_some_without(rank),),
                _mean_over(_some_without),
            ),
        ],
        compare=close_to(1e-5),
    ),
    mistakes=(
        Mistake(
            "mean-of-means",
            "You averaged the means of the ranks. That counts a rank with one number as much as a rank with a hundred, "
            "and is wrong as soon as shares are uneven. Add up the sums and the counts; divide once, at the end.",
            _guarded_mean_of_means,
            _gives_where_some_are_held(_mean_of_rank_means),
        ),
        Mistake(
            "own-mean",
            "Each rank gives the mean of its own numbers; nothing was sent. A rank learns what others hold only "
            "through a collective.",
            lambda me, values: float(values.mean()),
            _gives_where_some_are_held(lambda rank, world_size: float(_numbers(rank).mean())),
        ),
        Mistake(
            "divides-by-own-count",
            "The sum is over all ranks, but you divide it by the count of this rank alone. The count has to be added "
            "up over the ranks as well.",
            _divides_by_own_count,
            _gives_where_some_are_held(_sum_over_own_count),
        ),
        Mistake(
            "divides-by-world-size",
            "The sum is over all numbers, but you divide by the number of ranks. Divide by how many numbers there are "
            "on all ranks together.",
            _divides_by_world_size,
        ),
        Mistake(
            "only-rank-0",
            "Rank 0 has the right mean and the others do not: that is a reduce. With an all-reduce every rank gets the "
            "sum.",
            _only_rank_0,
            _right_on_rank_0_alone,
        ),
        Mistake(
            "sums-unlike-shapes",
            "You gave the values themselves to the all-reduce. It adds element to element, so the tensor must have the "
            "same shape on every rank, and here each rank holds another number of values. Sum your own values first.",
            _sums_unlike_shapes,
            _hangs_on_shapes,
        ),
        Mistake(
            "not-everybody-comes",
            "Some rank never calls the collective, and the others wait for it. Every rank must come, a rank that holds "
            "nothing too: it brings a sum of 0 and a count of 0, and leaves with the mean.",
            _leaves_when_empty,
            _hangs,
        ),
    ),
    hints=(
        "A mean is a sum divided by a count. Which of the two does a rank know for all ranks?",
        "Neither. Put both into one tensor, so that a single `dist.all_reduce` adds up both.",
        "totals = torch.stack([values.sum(), torch.tensor(float(len(values)), dtype=values.dtype)]); after "
        "`dist.all_reduce(totals)` every rank divides totals[0] by totals[1].",
    ),
    passed="The same mean on every rank, with uneven shares and with a rank that holds nothing.",
)
