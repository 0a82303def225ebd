"""02.ring: an all-reduce around a ring, judged by its values and by what it sends."""

from __future__ import annotations

import torch
import torch.distributed as dist

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_02.beside import mistakes_beside
from course_lib.learn.exercises.lesson_02.costs import CostJudge
from course_lib.learn.exercises.lesson_02.ring.cost import weigh
from course_lib.learn.exercises.lesson_02.ring.mistakes import EVEN, FEWER, MISTAKES, UNEVEN
from course_lib.learn.exercises.lesson_02.ring.numbers import compare_sums, numbers, total
from course_lib.learn.exercises.lesson_02.ring.wrong_answers import ring
from course_lib.learn.judging.judge import RankJudge

__all__ = ["RING"]

_NEW_NAMES = ("all_gather_single", "reduce_scatter_single")  # of PyTorch 2.13 and later
_FRACTIONS, _NARROW = "10 numbers that are not whole", "10 numbers in float32"


def _case(label: str, count: int, dtype: torch.dtype = torch.int64) -> Case:
    """``count`` numbers; 0: ten for each rank."""
    return Case(
        label,
        lambda rank, n: (numbers(rank, count or 10 * n, dtype),),
        lambda rank, n: total(n, count or 10 * n, dtype),
    )


RING = Exercise(
    name="02.ring",
    title="An all-reduce around a ring",
    judge=CostJudge(
        RankJudge(
            (2, 3, 4, 5, 1),
            (
                _case(EVEN, 0),
                _case(UNEVEN, 11),
                _case(FEWER, 3),
                _case(_NARROW, 10, torch.float32),
                _case(_FRACTIONS, 10, torch.float64),
            ),
            compare=compare_sums,
            timeout_s=5.0,
        ),
        {EVEN: weigh(0), UNEVEN: weigh(11), FEWER: weigh(3), _NARROW: weigh(10, 4), _FRACTIONS: weigh(10)},
        handed="filled",
    ),
    mistakes=(*mistakes_beside(ring(), in_place=True), *MISTAKES),
    hints=(
        "Cut the tensor: `parts = tensor.tensor_split(n)`. In step 0 of the first lap, send part `me.rank` to the next "
        "rank. (The recording begins with part `me.rank - 1`: either will do.) Which part does "
        "the rank before you send at the same time?",
        "First lap, step s: send part `(rank - s) % n`, receive part `(rank - s - 1) % n` into a buffer, add it to "
        "your part. Second lap, step s: send part `(rank + 1 - s) % n`, receive part `(rank - s) % n` in its place.",
        "One step of the first lap: `arrived = torch.empty_like(mine)`, then `exchange([send(give, after), "
        "recv(arrived, before)])`, then `mine += arrived`, with give = parts[(me.rank - step) % n] and "
        "mine = parts[(me.rank - step - 1) % n].",
    ),
    forbidden=(
        "torch.distributed.all_reduce",
        "torch.distributed.all_reduce_coalesced",
        "torch.distributed.reduce",
        "torch.distributed.reduce_scatter",
        "torch.distributed.reduce_scatter_tensor",
        "torch.distributed.all_gather",
        "torch.distributed.all_gather_into_tensor",
        "torch.distributed.all_gather_object",
        "torch.distributed.gather",
        "torch.distributed.scatter",
        "torch.distributed.all_to_all",
        "torch.distributed.all_to_all_single",
        "torch.distributed.broadcast",
        *(f"torch.distributed.{name}" for name in _NEW_NAMES if hasattr(dist, name)),
        "torch.distributed.nn.functional.all_reduce",
        "course_lib.parallel.collectives.all_reduce",
        "course_lib.parallel.collectives.reduce_scatter",
        "course_lib.parallel.collectives.all_gather",
        "course_lib.parallel.collectives.reduce",
        "course_lib.parallel.collectives.broadcast",
        "course_lib.parallel.collectives.all_to_all",
        "course_lib.parallel.collectives.gather",
        "course_lib.parallel.collectives.scatter",
    ),
    passed="The sum is right on 2, 3, 4 and 5 ranks, in the tensor's own memory. No rank sends more than "
    "2 (n - 1) parts, and all go to one neighbour: no all-reduce made of messages can do with fewer bytes.",
)
