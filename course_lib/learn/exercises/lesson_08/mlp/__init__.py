"""08.mlp: an MLP cut by columns, then by rows, judged by output, gradients, and one all-reduce each way."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_08.judging import by_steps
from course_lib.learn.exercises.lesson_08.mlp.cases import LAYERS, SIZES, SPLIT
from course_lib.learn.exercises.lesson_08.mlp.mistakes import MISTAKES

__all__ = ["MLP"]

MLP = Exercise(
    name="08.mlp",
    title="An MLP on several ranks, with one all-reduce each way",
    judge=by_steps([SPLIT.case(sizes) for sizes in SIZES], SPLIT.trial),
    mistakes=MISTAKES,
    hints=(
        "Follow one row of x. Where does a rank have numbers that are complete, and where does it have a summand?",
        "Enter; first linear layer with its part of the bias; GELU; second layer *without* bias; leave; then the bias.",
        "`hidden = F.gelu(F.linear(enter(me, x), w_up, b_up))`, then `leave(me, F.linear(hidden, w_down)) + b_down`.",
    ),
    forbidden=LAYERS,
    passed="Output and all gradients are those of the unsplit MLP, for one all-reduce forward and one backward.",
)
