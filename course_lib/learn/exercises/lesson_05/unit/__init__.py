"""05.unit: a layer of which each rank keeps some rows, and gathers the others while it computes."""

from __future__ import annotations

from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_05.unit.cases import AFTER, BETWEEN, CAME, KINDS, right
from course_lib.learn.exercises.lesson_05.unit.mistakes import MISTAKES
from course_lib.learn.exercises.lesson_05.unit.trial import trial
from course_lib.learn.exercises.lesson_08.judging import by_steps
from course_lib.learn.judging.function_class import need_function_class

__all__ = ["UNIT"]


def _need_layer(answer: Any) -> None:
    """Raise ``NotAnAnswer`` for what is no class of such a layer."""
    need_function_class(answer, "ShardedLinear", "a layer", "x, shard")


UNIT = Exercise(
    name="05.unit",
    title="A layer that borrows its weight",
    judge=by_steps(
        [Case(kind, (kind,), right(kind)) for kind in KINDS],
        trial,
        check=_need_layer,
        words={
            BETWEEN: "the numbers are right, and when forward is over, ",
            AFTER: "the numbers are right, and when backward is over, ",
            CAME: "the numbers are right, and the gradient that came to `backward` was ",
        },
    ),
    mistakes=MISTAKES,
    hints=(
        "Two gradients are asked for. Write down for each what it is made of; which of that is on this rank when "
        "`backward` begins, and which is on the others?",
        "The gradient of x takes the whole weight, and belongs to this rank alone. That of W takes `grad` and x, which "
        "every rank has for its own batch. Add up over ranks, and each rank needs the sum for its own rows. There is "
        "one collective for each of the two.",
        "Both ways begin with `dist.all_gather(list(weight.chunk(n)), shard)`, `weight` a new, empty tensor of the "
        "whole shape. Then `x @ weight.T` forward; backward `grad @ weight`, and `dist.reduce_scatter(rows, "
        "list((grad.T @ x).chunk(n)))`, divided by n, the number of ranks. `ctx` keeps what this "
        "rank had when forward began.",
    ),
    forbidden=(
        "course_lib.parallel.tensor.autograd_collectives.all_gather_reduce_scatter",
        "course_lib.parallel.sharded.fully_sharded.FullySharded",
    ),
    passed="Outputs and gradients are those of one device on 2, 3, 4 and 5 ranks, with a batch of its own on each. No "
    "rank sent more than rings need for an all-gather forward, and for an all-gather and a reduce-scatter "
    "backward. And nothing as large as the whole weight was found in memory between forward and backward.",
)
