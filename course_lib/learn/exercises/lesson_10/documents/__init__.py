"""10.documents: who has which positions of packed documents, so that all ranks have as many tokens and as many pairs.

An answer is judged by what it promises and not by one order.
"""

from __future__ import annotations

from typing import Any

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_10.dealt_positions import (
    FALLS,
    DealtParts,
    not_positions,
    plain_positions,
)
from course_lib.learn.exercises.lesson_10.documents import wrong_answers
from course_lib.learn.exercises.lesson_10.documents.rules import MOST_RUNS, PACKINGS, RUNS, fault_in
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.learn.judging.kept_references import Traces

__all__ = ["DOCUMENTS", "fault_in"]

_CHANGED = "`lengths` was changed; it is the caller's"


def _call(answer: Any, num_ranks: int, lengths: tuple[int, ...]) -> DealtParts:
    """What the answer gives for each rank; each gets a list of its own."""
    traces, parts, given = Traces(), DealtParts(), [list(lengths) for _ in range(num_ranks)]
    for rank, own in enumerate(given):
        parts.append(plain_positions(answer(rank, num_ranks, own), sum(lengths)))
    parts.note = traces.left(None) or (_CHANGED if any(own != list(lengths) for own in given) else "")
    return parts


def _compare(expected: Any, got: Any) -> str:
    if not isinstance(expected, tuple):
        return "" if expected == got else "the positions differ"  # of two wrong answers
    return not_positions(got) or fault_in(got, expected) or getattr(got, "note", "")


def _label(num_ranks: int, lengths: tuple[int, ...]) -> str:
    shown = f"{len(lengths)} documents of {lengths[0]}" if len(set(lengths)) == 1 < len(lengths) else ""
    if not shown and len(lengths) >= 8 and lengths == lengths[:2] * (len(lengths) // 2):
        shown = f"{len(lengths)} documents of {lengths[0]} and {lengths[1]} in turn"
    shown = shown or (
        f"lengths {list(lengths)}" if len(lengths) < 8 else f"{len(lengths)} documents, {sum(lengths)} tokens"
    )
    return f"{shown} on {num_ranks} rank{'s' * (num_ranks > 1)}"


def _only(kind: str) -> Any:
    """Whether every fault is of one kind."""

    def recognise(evidence: Evidence) -> bool:
        return bool(evidence.wrong) and all(outcome.kind_of_difference == kind for outcome in evidence.wrong)

    return recognise


def _changes(evidence: Evidence) -> bool:
    return bool(evidence.wrong) and all(outcome.difference == _CHANGED for outcome in evidence.wrong)


DOCUMENTS = Exercise(
    name="10.documents",
    may_yield=True,
    title="Packed documents, equal work",
    judge=by_cases_apart(
        [Case(_label(*one), one, lambda _, lengths: lengths) for one in PACKINGS], call=_call, compare=_compare
    ),
    mistakes=(
        Mistake(
            "zigzag-over-all",
            "That is zigzag over the packed sequence, and takes no account of documents. A query costs more the later "
            "it stands in its own document: cut each document by itself.",
            wrong_answers.zigzag_over_all,
        ),
        Mistake(
            "contiguous",
            "One part of the packed sequence for each rank. The rank with the end of a long document has the most to "
            "do.",
            wrong_answers.contiguous,
        ),
        Mistake(
            "one-run-each",
            "You cut each document into one stretch for each rank, so the last rank has the end of every document. A "
            "rank may have two stretches of a document.",
            wrong_answers.each_document_in_one_run,
        ),
        Mistake(
            "first-parts-longer",
            "That is zigzag in each document, and what does not divide always goes to the same ranks. With many "
            "documents that adds up: deal out the tokens left over from all documents together.",
            wrong_answers.first_parts_longer,
        ),
        Mistake(
            "from-zero",
            "You count positions from 0 in each document. Count them in the packed sequence: add the position where "
            "the document begins.",
            wrong_answers.from_zero_in_each_document,
        ),
        Mistake(
            "rest-dropped",
            "Your answer is right where every length divides. Elsewhere some tokens have no owner: what `//` leaves "
            "over has to go to some rank.",
            wrong_answers.rest_dropped,
        ),
        Mistake(
            "rest-to-the-last",
            "Your answer is right where every length divides. Elsewhere one rank has all tokens left over, from every "
            "document.",
            wrong_answers.rest_to_the_last_rank,
        ),
        Mistake(
            "rest-in-order",
            "Tokens are even everywhere, but pairs are not: some rank gets the more costly tokens of every document. "
            "One way out: collect the tokens left over from all documents, sort them by their pairs, and then deal "
            "them out.",
            wrong_answers.rest_in_order,
        ),
        Mistake(
            "same-distance",
            "Each rank has two parts of each document, half a document apart. So the rank with the later early part "
            "has the later late part as well. Pair the first part with the last.",
            wrong_answers.same_distance,
        ),
        Mistake(
            "whole-documents",
            "You give whole documents, each to one rank: nothing would have to be sent. But tokens are uneven then, "
            "and a long document is more than one rank's share.",
            wrong_answers.whole_documents,
        ),
        Mistake(
            "falls",
            "Each position has one owner. But a rank's positions do not rise everywhere, and its tensors hold them in "
            "rising order: `sorted`.",
            recognise=_only(FALLS),
        ),
        Mistake(
            "pieces",
            "Tokens and pairs are even, but a rank's positions lie in a great many pieces. Kernels compute in tiles "
            f"of neighbouring positions: {MOST_RUNS} stretches for each document are the most.",
            recognise=_only(RUNS),
        ),
        Mistake(
            "changes-lengths",
            "The positions are right, but your code changes the list `lengths`. The caller still needs it: make a "
            "copy.",
            recognise=_changes,
        ),
    ),
    hints=(
        "Forget the sequence: look at one document. Which of its parts would make an equal share for each rank? Do "
        "that with every document, as far as it divides.",
        "With n ranks cut a document into 2n parts of `length // (2 * n)` tokens. Then `length % (2 * n)` tokens are "
        "left over: take them from the document's front, where they cost least. Collect those of all documents, sort "
        "them by their pairs, and deal them out one by one.",
        "`size, over = divmod(length, 2 * num_ranks)`; the first `over` tokens go to `rest` as `(offset, start + "
        "offset)`. Part p begins at `start + over + p * size`; rank r has part r and part `2 * num_ranks - 1 - r`. "
        "At the end rank r also has `sorted(rest)[r::num_ranks]`, and all of it is sorted.",
    ),
    forbidden=(
        "course_lib.layouts.document_cut.DocumentCut.by_order",
        "course_lib.layouts.document_orders.even",
    ),
    passed="Whatever the lengths are, tokens are even to within one. No rank is further above the mean of pairs "
    "than a single query may cost.",
)
