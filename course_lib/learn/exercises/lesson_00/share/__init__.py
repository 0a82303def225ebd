"""Exercise 00.share: which items are mine?"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_00.share.cases import CASES, all_shares, shares_difference
from course_lib.learn.exercises.lesson_00.share.mistakes import MISTAKES
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["SHARE"]


SHARE = Exercise(
    name="00.share",
    title="Deal out the items",
    judge=by_cases_apart(CASES, call=all_shares, compare=shares_difference),
    mistakes=MISTAKES,
    hints=(
        "Everybody gets `num_items // world_size` items. How many are left over, and who gets one more?",
        "The first `extra = num_items % world_size` ranks get one more. So before rank r lie r whole shares, and one "
        "extra item for each of the ranks before r that got one: `min(r, extra)` of them.",
        "With `base, extra = divmod(num_items, world_size)`: start = rank * base + min(rank, extra), and the share has "
        "base + (rank < extra) items.",
    ),
    forbidden=("torch.tensor_split", "torch.Tensor.tensor_split", "numpy.array_split"),
    passed="Every item has one owner, in order, and no rank has more than one item more than another.",
)
