"""08.embedding: a table of tokens cut by rows, judged by vectors, gradients, and one all-reduce forward."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_08.embedding.cases import CASES, LIBRARY, trial
from course_lib.learn.exercises.lesson_08.embedding.mistakes import MISTAKES
from course_lib.learn.exercises.lesson_08.judging import by_steps

__all__ = ["EMBEDDING"]

EMBEDDING = Exercise(
    name="08.embedding",
    title="A table of tokens, some rows on each rank",
    judge=by_steps(CASES, trial),
    mistakes=MISTAKES,
    hints=(
        "A rank knows the vectors of its own tokens. What must it return for the others, if the results of all ranks "
        "are added up?",
        "Rank r's first row is token `r * len(table)`: subtract that, and see which places are among its rows. Look "
        "up at clamped places, put zeros where the token is not here, and pass `leave`.",
        "`place = tokens - me.rank * len(table)`; `is_here = (place >= 0) & (place < len(table))`; "
        "`F.embedding(place.clamp(0, len(table) - 1), table)`; `torch.where(is_here[..., None], vectors, 0.0)`.",
    ),
    forbidden=(LIBRARY,),
    passed="All ranks have the vector of every token, and each row has its gradient on the rank that holds it. That "
    "took one all-reduce forward, and nothing backward.",
)
