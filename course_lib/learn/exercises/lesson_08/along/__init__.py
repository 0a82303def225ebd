"""08.along: the gates of a region outside which each rank has some of the positions."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_08.along.cases import KINDS, right, trial
from course_lib.learn.exercises.lesson_08.along.mistakes import MISTAKES
from course_lib.learn.exercises.lesson_08.gates import need_gate
from course_lib.learn.exercises.lesson_08.gates.cases import KEPT_BACK
from course_lib.learn.exercises.lesson_08.judging import by_steps

__all__ = ["ALONG"]

ALONG = Exercise(
    name="08.along",
    title="Two gates along the positions",
    judge=by_steps(
        [Case(kind, (kind,), right(kind)) for kind in KINDS],
        trial,
        check=need_gate,
        words={KEPT_BACK: "the numbers are right, and the gradient that came to a gate was "},
    ),
    mistakes=MISTAKES,
    hints=(
        "Forward, at the entrance, each rank has *some* positions, and the region needs all. Forward, at the exit, "
        "each rank has a *summand* of every position, and needs the sum for its own positions. Which helper does each "
        "gate need?",
        "Backward, at the entrance, every rank has a gradient of all positions, from its own features alone. So it is "
        "a summand again. Backward, at the exit, each rank knows the gradient of its own positions alone.",
        "`forward`: `joined(x) if is_entrance else shared_out(x)`; `backward`: the other one of the two, and None for "
        "the flag.",
    ),
    forbidden=(
        "course_lib.parallel.tensor.autograd_collectives.all_gather_reduce_scatter",
        "course_lib.parallel.tensor.autograd_collectives.reduce_scatter_all_gather",
    ),
    passed="The entrance is an all-gather and the exit a reduce-scatter; backward it is the other way round. Each is "
    "half of an all-reduce.",
)
