"""08.between: cut two matrices so that nothing travels between them."""

from __future__ import annotations

from typing import Any

from course_lib.learn.compare import short
from course_lib.learn.exercise import Exercise, Mistake
from course_lib.learn.judge import by_value
from course_lib.parallel.tensor import Replicate, Shard, local_product, parse_placement

__all__ = ["BETWEEN"]

_RIGHT = {"A": "S(1)", "B": "S(0)"}


def _compare(expected: Any, got: Any) -> str:
    """What travels between X A and H B, where both are cut and X is on every rank; "" when nothing does."""
    if not isinstance(got, dict) or set(got) != {"A", "B"}:
        return f'expected a dictionary with the keys "A" and "B", got {short(got)}'
    try:
        a, b = (parse_placement(str(got[name]).strip().upper()) for name in "AB")
    except ValueError as error:
        return str(error).partition(". The nearest")[0]
    for name, placement in (("A", a), ("B", b)):
        if placement not in (Shard(0), Shard(1)):
            return f"{name} is placed {placement}; it is to be cut, S(0) or S(1)"
    hidden = local_product(Replicate(), a)
    if hidden is None:  # rows of A meet columns of X, which every rank has
        return f"A is {a}: the product is partial sums, which must be added up before GELU may see them"
    if local_product(hidden, b) is None:
        return f"A is {a} and B is {b}: the hidden units come as {hidden}, and must move before B can be used"
    return ""


BETWEEN = Exercise(
    name="08.between",
    title="Two matrices, and nothing between them",
    judge=by_value(_RIGHT, label="your cuts", compare=_compare),
    mistakes=(
        Mistake(
            "rows-then-columns",
            "Rows of A give partial sums, and GELU of a sum is not the sum of GELUs: they would have to be added up "
            "first, between the layers. Which cut of A gives whole numbers, if fewer of them?",
            {"A": "S(0)", "B": "S(1)"},
        ),
        Mistake(
            "columns-twice",
            "The columns of A are right: each rank has some hidden units, complete, and may bend them. But a column "
            "of B needs *all* hidden units, so they would be gathered first. Which part of B needs only the hidden "
            "units that a rank has?",
            {"A": "S(1)", "B": "S(1)"},
        ),
        Mistake(
            "rows-twice",
            "The rows of B are right. The rows of A give partial sums, which GELU must not see.",
            {"A": "S(0)", "B": "S(0)"},
        ),
        Mistake(
            "not-cut",
            "Nothing travels, and nothing is saved: every rank holds both matrices and does all the work.",
            {"A": "R", "B": "R"},
        ),
        Mistake(
            "half-cut",
            "One matrix is cut and the other is on every rank. Cut both, S(0) or S(1).",
            {"A": "S(1)", "B": "R"},
            lambda evidence: sorted(evidence.answer[name] == "R" for name in "AB") == [False, True],
        ),
    ),
    hints=(
        "GELU bends each number on its own. After which cut of A does a rank have numbers that are complete?",
        "With columns of A a rank has some of the hidden units. Find, in the table, the row whose X is cut like that "
        "and whose forward column says nothing but a sum at the end.",
        'A by columns is "S(1)". Hidden units are the rows of B: "S(0)".',
    ),
    passed="Columns, then rows: each rank takes its hidden units from the first product to the second, and only the "
    "final sums travel.",
)
