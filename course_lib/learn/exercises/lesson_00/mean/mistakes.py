"""Usual wrong answers to 00.mean, and by what they are known."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_00.in_place import keeps_what_comes_back
from course_lib.learn.exercises.lesson_00.mean.cases import AGAIN, FEW, NONE_ON_RANK_0, ONE_NAN, numbers
from course_lib.learn.exercises.lesson_00.tried import alone, place_of, value_of, with_label

__all__ = ["MISTAKES"]


# -- what they are known by --------------------------------------------------------------------------------------------


def _gives(wrong: Callable[[int, int], float], *, sent: bool = True) -> Callable[[Evidence], bool]:
    """Whether every rank that holds uneven shares gave ``wrong(rank, world_size)``, having sent something or not.

    What it gives where a rank holds nothing may differ.
    """

    def recognise(seen: Evidence) -> bool:
        held = with_label(seen, FEW)
        return bool(held) and all(
            abs(float(value_of(one.got)) - wrong(*place_of(one))) < 1e-5 and bool(one.got.num_calls) == sent
            for one in held
        )

    return recognise


def _sum_of_all(world_size: int) -> float:
    return sum(float(numbers(rank).sum()) for rank in range(world_size))


def _of_whole_sums(rank: int, world_size: int) -> float:
    sums = sum(int(numbers(other).sum()) for other in range(world_size))
    return sums / sum(len(numbers(other)) for other in range(world_size))


def _mean_of_rank_means(rank: int, world_size: int) -> float:
    return sum(float(numbers(other).mean()) for other in range(world_size)) / world_size


def _again_by_ranks(seen: Evidence) -> bool:
    """Whether with the other shares, too, the sum was divided by the number of ranks, and not by the largest count."""
    for one in with_label(seen, AGAIN):
        world_size = place_of(one)[1]
        num_values = sum(2 * rank + 4 for rank in range(world_size))
        if abs(float(value_of(one.got)) - one.expected * num_values / world_size) > 1e-4:
            return False
    return True


def _right_on_rank_0_alone(seen: Evidence) -> bool:
    on_0 = [one for one in seen.outcomes if place_of(one)[0] == 0] if seen.error is None else []
    rest = [one for one in seen.outcomes if one not in on_0]
    return bool(on_0 and rest) and all(one.right for one in on_0) and not any(one.right for one in rest)


def _never_came(label: str) -> Callable[[Evidence], bool]:
    """Whether ranks wait for one that never called what they wait in, and the first case of that is this one."""
    return lambda seen: (
        seen.error is not None
        and seen.error.kind == "RankTimeout"
        and bool(seen.stands.never_called)
        and seen.wrong[0].case.startswith(f"{label} on ")
    )


def _gave_its_values(seen: Evidence) -> bool:
    """Whether each rank waits in an all-reduce of as many numbers as it holds: rank + 1 of them."""
    if seen.error is None or not seen.wrong[0].case.startswith(f"{FEW} on "):
        return False
    first = [one for one in seen.stands.waiting_in("all_reduce") if one.number == 1]
    sizes = {one.rank: prod(one.shape) for one in first if one.shape is not None and len(one.shape) <= 1}
    return len(sizes) > 1 and all(size == rank + 1 for rank, size in sizes.items())


def _hides_a_nan(seen: Evidence) -> bool:
    """Whether all is right but the mean with a NaN in it, and that came out as a number."""
    wrong = [one for one in seen.wrong if one.error is None and one.case.startswith(f"{ONE_NAN}, rank ")]
    return bool(wrong) and len(wrong) == len(seen.wrong) and all(float(value_of(one.got)) < 1e9 for one in wrong)


MISTAKES = (
    Mistake(
        "hides-a-nan",
        "Right for numbers. One rank holds a NaN, and your mean is a number all the same: the NaN was left out or "
        "replaced on the way. A mean with a NaN in it is NaN, and whoever reads it is to see that something has gone "
        "wrong.",
        recognise=_hides_a_nan,
    ),
    Mistake(
        "not-alone",
        "Right on 2, 3, 4 and 5 ranks, and not on one. A job may well have one rank, whose collectives have one member "
        "and come back at once.",
        recognise=alone,
    ),
    Mistake(
        "mean-of-means",
        "You averaged the means of the ranks. That counts a rank with one number as much as a rank with a hundred, "
        "and is wrong as soon as shares are uneven. Add up the sums and the counts; divide once, at the end.",
        recognise=_gives(_mean_of_rank_means),
    ),
    Mistake(
        "own-mean",
        "Each rank gives the mean of its own numbers; nothing was sent. A rank learns what others hold only "
        "through a collective.",
        recognise=_gives(lambda rank, world_size: float(numbers(rank).mean()), sent=False),
    ),
    Mistake(
        "divides-by-own-count",
        "The sum is over all ranks, but you divide it by the count of this rank alone. The count has to be added "
        "up over the ranks as well.",
        recognise=_gives(lambda rank, world_size: _sum_of_all(world_size) / (rank + 1)),
    ),
    Mistake(
        "takes-shares-for-equal",
        "The sum is right, and you divide it by this rank's count times the number of ranks. That is the number of all "
        "values only where every rank holds equally many. The count has to be added up over the ranks as well.",
        recognise=_gives(lambda rank, world_size: _sum_of_all(world_size) / ((rank + 1) * world_size)),
    ),
    Mistake(
        "in-whole-numbers",
        "The sums were cut to whole numbers before they travelled: `int()`, and a tensor of integers, hold no "
        "fraction. Put sum and count into a tensor of floating-point numbers.",
        recognise=_gives(_of_whole_sums),
    ),
    Mistake(
        "divides-by-world-size",
        "The sum is over all numbers, but you divide by the number of ranks. Divide by how many numbers there are "
        "on all ranks together.",
        recognise=lambda seen: (
            _gives(lambda rank, world_size: _sum_of_all(world_size) / world_size)(seen) and _again_by_ranks(seen)
        ),
    ),
    Mistake(
        "sum-for-mean",
        "This is the sum of all numbers. A mean needs one thing more that no rank knows alone: how many numbers "
        "there are on all ranks together.",
        recognise=_gives(lambda rank, world_size: _sum_of_all(world_size)),
    ),
    Mistake(
        "only-rank-0",
        "Rank 0 gives the right mean and the others do not. A reduce tells one rank alone; after an all-reduce every "
        "rank holds the sum, and every rank is to give the mean.",
        recognise=_right_on_rank_0_alone,
    ),
    Mistake(
        "keeps-what-comes-back",
        "`dist.all_reduce` works in place: the tensor that you give it holds the sum afterwards, and what the call "
        "returns is None. Your answer goes on with what it returns.",
        recognise=keeps_what_comes_back,
    ),
    Mistake(
        "sums-unlike-shapes",
        "The all-reduce was given a tensor as long as this rank's values, and each rank holds another number of them. "
        "It adds element to element, so the tensor must have the same shape on every rank. Sum your own values first.",
        recognise=_gave_its_values,
    ),
    Mistake(
        "empty-rank-stays-away",
        "A rank that holds no number never calls the collective, and the others wait for it. Every rank must come, "
        "a rank that holds nothing too: it has something to tell, and it needs the mean as well.",
        recognise=_never_came(NONE_ON_RANK_0),
    ),
    Mistake(
        "not-everybody-comes",
        "The ranks do not call the collective equally often, and some wait for one that never calls it again. Every "
        "rank must make the same calls: no `if` that is true on some ranks only may stand around the call. Nor may a "
        "loop over values, since each rank holds another number of them.",
        recognise=_never_came(FEW),
    ),
)
