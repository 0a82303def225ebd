"""08.heads: attention cut by heads, judged by output, gradients, and one all-reduce each way."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_08.heads.cases import CASES, LIBRARY, trial
from course_lib.learn.exercises.lesson_08.heads.mistakes import MISTAKES
from course_lib.learn.exercises.lesson_08.judging import by_steps

__all__ = ["HEADS"]

HEADS = Exercise(
    name="08.heads",
    title="Attention, a few heads on each rank",
    judge=by_steps(CASES, trial),
    mistakes=MISTAKES,
    hints=(
        "It is as in the MLP: a rank goes on with the parts that it has made itself. How many heads does a rank have?",
        "Enter once. For queries, keys and values each: apply a linear layer, split the last dim into `num_heads // "
        "me.world_size` heads, and put heads before positions. After attention, put heads behind positions again and "
        "join them. Apply the last layer, and leave.",
        "`F.linear(h, w).unflatten(-1, (num_heads // me.world_size, -1)).transpose(1, 2)` for each of the three; then "
        "`F.scaled_dot_product_attention(q, k, v, is_causal=True)`, `.transpose(1, 2).flatten(2)`, and `leave(me, "
        "F.linear(..., w_out))`.",
    ),
    forbidden=(LIBRARY,),
    passed="Output and all gradients are those of unsplit attention, for one all-reduce forward and one backward.",
)
