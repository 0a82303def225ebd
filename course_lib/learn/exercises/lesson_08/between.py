"""08.between: cut two matrices so that nothing is sent between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence, Exercise, Mistake
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.judge import by_value
from course_lib.parallel.tensor import Placement, Replicate, Shard, local_product, parse_placement

__all__ = ["BETWEEN"]

_RIGHT = {"A": "S(1)", "B": "S(0)"}


def _placement(given: Any) -> Placement:
    """A placement as the course, PyTorch or a hasty hand writes it: "S(1)", " s( 1 )", "Shard(dim=1)", "S(-1)"."""
    text = re.sub(r"\s", "", str(given)).upper()
    text = re.sub(r"^SHARD\((DIM=)?", "S(", text)
    text = {"REPLICATE": "R", "REPLICATE()": "R", "PARTIAL()": "P", "S(-1)": "S(1)", "S(-2)": "S(0)"}.get(text, text)
    try:
        return parse_placement(text)
    except ValueError:
        raise ValueError(f"{str(given)!r} is no placement; write R, S(0) or S(1)") from None


def _named(got: Any) -> dict[str, Any]:
    """The cuts by the names of their matrices; empty where they are not those of A and B."""
    named = {str(name).strip().upper(): cut for name, cut in got.items()} if isinstance(got, Mapping) else {}
    return named if set(named) == {"A", "B"} and len(got) == 2 else {}


def _compare(expected: Any, got: Any) -> str:
    """What is sent between X A and H B, where both are cut and X is on every rank; "" when nothing does."""
    named = _named(got)
    if not named:
        return f'expected a dictionary with the keys "A" and "B", got {short(got)}'
    try:
        a, b = (_placement(named[name]) for name in "AB")
    except ValueError as error:
        return str(error)
    for name, placement in (("A", a), ("B", b)):
        if placement not in (Shard(0), Shard(1)):
            return f"{name} is placed {placement}; it is to be cut, S(0) or S(1)"
    hidden = local_product(Replicate(), a)
    if hidden is None:  # rows of A meet columns of X, which every rank has
        return f"A is {a}: the product is partial sums, which must be added up before GELU may see them"
    if local_product(hidden, b) is None:
        return f"A is {a} and B is {b}: the hidden units come as {hidden}, and must move before B can be used"
    return ""


def _cut_as(*pairs: tuple[Placement, Placement]) -> Callable[[Evidence], bool]:
    """Whether A and B are placed as one of these pairs, however that is written."""

    def recognise(evidence: Evidence) -> bool:
        named = _named(evidence.answer)
        return bool(named) and (_placement(named["A"]), _placement(named["B"])) in pairs

    return recognise


_ROWS, _COLUMNS, _WHOLE = Shard(0), Shard(1), Replicate()
_HALF_CUT = tuple(pair for cut in (_ROWS, _COLUMNS) for pair in ((cut, _WHOLE), (_WHOLE, cut)))

BETWEEN = Exercise(
    name="08.between",
    title="Two matrices, and no message between them",
    judge=by_value(_RIGHT, label="your cuts", compare=_compare),
    mistakes=(
        Mistake(
            "rows-then-columns",
            "Rows of A give partial sums, and GELU of a sum is not the sum of GELUs. They would have to be added up "
            "first, between the layers. Which cut of A gives each rank complete numbers, though fewer of them?",
            recognise=_cut_as((_ROWS, _COLUMNS)),
        ),
        Mistake(
            "columns-twice",
            "The columns of A are right: each rank has some hidden units, complete, and can apply GELU to them. But a "
            "column of B needs *all* hidden units, so the ranks would gather them first. Which part of B needs only "
            "the hidden units that a rank has?",
            recognise=_cut_as((_COLUMNS, _COLUMNS)),
        ),
        Mistake(
            "rows-twice",
            "The rows of B are right. The rows of A give partial sums, which GELU must not see.",
            recognise=_cut_as((_ROWS, _ROWS)),
        ),
        Mistake(
            "not-cut",
            "No message is sent, and no memory or work is saved: every rank holds both matrices and does all the work.",
            recognise=_cut_as((_WHOLE, _WHOLE)),
        ),
        Mistake(
            "half-cut",
            "One matrix is cut and the other is on every rank. Cut both, S(0) or S(1).",
            recognise=_cut_as(*_HALF_CUT),
        ),
    ),
    hints=(
        "GELU works on each number on its own. After which cut of A does a rank have numbers that are complete?",
        "With columns of A a rank has some of the hidden units. Find, in the table, the row whose X is cut like that "
        "and whose forward column says nothing but a sum at the end.",
        'A by columns is "S(1)". Hidden units are the rows of B: "S(0)".',
    ),
    is_value=True,
    passed="Columns, then rows: each rank uses its own hidden units in the second product, and only the final sums "
    "are sent.",
)
