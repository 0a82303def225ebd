"""Usual wrong split embeddings, each by name and with a sentence."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_08.embedding.cases import TABLE, sizes_of_case
from course_lib.learn.exercises.lesson_08.embedding.wrong_answers import (
    by_place,
    by_remainder,
    by_token_number,
    everybody,
    keep,
    largest_of_all,
    not_waited_for,
    split_embedding,
)
from course_lib.learn.exercises.lesson_08.tries import FORWARD, SumBothWays, gradient_of
from course_lib.learn.exercises.lesson_08.usual import differs_in, no_way_back, not_waited
from course_lib.parallel.tensor import all_reduce_identity, identity_all_reduce

__all__ = ["MISTAKES"]


def _is_out_of_bounds(evidence: Evidence) -> bool:
    error = evidence.error
    return error is not None and any(words in error.message for words in ("index out of range", "out of bounds"))


def _gathers(which: int) -> Callable[[Evidence], bool]:
    """All numbers are right, and what was gathered has the size of a rank's table (0), or of its vectors (1)."""
    return lambda evidence: all(
        differs_in(o, FORWARD) and f"all_gather of {sizes_of_case(o.case)[which]} bytes" in o.got[FORWARD]
        for o in evidence.wrong
    )


MISTAKES = (
    not_waited(split_embedding(leave=not_waited_for)),
    Mistake(
        "everybody-gives-a-vector",
        "A rank that does not have a token adds a vector all the same: that of the row to which you clamped. Put "
        "zeros where the token is not here; then the sum over ranks is the one vector that counts.",
        split_embedding(find=everybody),
    ),
    Mistake(
        "place-by-remainder",
        "Every rank adds a vector for every token: `tokens % v` is a row of *this* rank even where the token is "
        "another's. Which rank has it? The others are to add zeros.",
        split_embedding(find=by_remainder),
    ),
    Mistake(
        "token-as-place",
        "You looked tokens up by their own number. Rank r's first row is token `r * v`: subtract that.",
        split_embedding(find=by_token_number),
    ),
    Mistake(
        "first-token-missed",
        "The *first* token of a rank gets zeros from everybody: its place is 0, and 0 is a row like the others.",
        split_embedding(find=by_place(1, 0)),
    ),
    Mistake(
        "last-token-missed",
        "The *last* token of a rank gets zeros from everybody. With v rows the places are 0 to v - 1, and v - 1 is "
        "one of them.",
        split_embedding(find=by_place(0, -1)),
    ),
    Mistake(
        "one-row-too-many",
        "The first token of a rank gets two vectors: the rank before takes it for one of its own. With v rows the "
        "places are 0 to v - 1; v itself is the next rank's.",
        split_embedding(find=by_place(0, 1)),
    ),
    Mistake(
        "looks-outside",
        "A lookup asked for a row that is not there. The place of a token is its number less `me.rank * len(table)`, "
        "and only 0 to `len(table) - 1` are here. Clamp the others, look up, and put zeros for them.",
        recognise=_is_out_of_bounds,
    ),
    Mistake(
        "own-part-only",
        "Each rank returns the vectors of its own tokens and zeros for the others. The output is the sum over ranks.",
        split_embedding(leave=keep),
    ),
    Mistake(
        "entrance-at-the-exit",
        "`enter` lets the vectors pass and sums their gradients. Here it is the other way round: what the ranks have "
        "here are summands, and the gradient is complete. That calls for the exit.",
        split_embedding(leave=identity_all_reduce),
    ),
    Mistake(
        "largest-not-sum",
        "You take the largest number of all ranks. A zero is larger than a negative number: add up instead.",
        split_embedding(leave=largest_of_all),
    ),
    Mistake(
        "mean-not-sum",
        "The vectors are `n` times too small. One rank gives a vector and the others zeros: their sum is the vector, "
        "so do not divide.",
        split_embedding(leave=lambda me, y: all_reduce_identity(me, y) / me.world_size),
    ),
    Mistake(
        "sums-back-at-the-exit",
        "The vectors are right and the table's gradient is `n` times too large: the all-reduce is repeated backward. "
        "Every rank has the whole gradient of the vectors already.",
        split_embedding(leave=lambda me, y: SumBothWays.apply(y)),
    ),
    Mistake(
        "table-through-the-entrance",
        "The vectors are right. But the table went through the entrance, which sums its gradient over ranks. Row 0 of "
        "rank 0 and row 0 of rank 1 are different tokens. Each rank keeps its own gradient.",
        split_embedding(table_through=identity_all_reduce),
    ),
    Mistake(
        "gathers-the-table",
        "The vectors are right, but the table was sent for them. With 50,000 tokens it is the largest matrix of the "
        "model, and every rank received it. Look up first; then only the vectors of these tokens are sent.",
        recognise=_gathers(0),
    ),
    Mistake(
        "gathers-the-vectors",
        "The vectors are right, but each rank sent its own to all others. For each token one rank has a vector, and "
        "the others have zeros: an all-reduce adds them up on the way, for fewer bytes.",
        recognise=_gathers(1),
    ),
    no_way_back(split_embedding(leave=lambda me, y: all_reduce_identity(me, y).detach()), "output", gradient_of(TABLE)),
)
