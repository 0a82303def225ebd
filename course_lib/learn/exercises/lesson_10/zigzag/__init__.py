"""10.zigzag: who has which positions, so that a causal ring keeps all ranks equally busy.

An answer is judged by what it promises and not by one order: whichever rank has the middle, and wherever a remainder
goes, each position has one owner, memory is even, and so is the work of every step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_10.dealt_positions import (
    DealtParts,
    fault_in_owners,
    not_positions,
    plain_positions,
)
from course_lib.learn.exercises.lesson_10.zigzag import mistakes
from course_lib.learn.exercises.lesson_10.zigzag.labels import SIZES
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.learn.judging.kept_references import Traces

__all__ = ["ZIGZAG", "fault_in", "step_pairs"]

_MOST_RUNS = 2
_SIZES_APART = 2  # positions
_PAIRS_APART = 3  # times the positions of the rank that has most


def step_pairs(parts: Sequence[Sequence[int]], step: int) -> list[int]:
    """How many pairs each rank computes where its queries meet the keys of the rank ``step`` places before it."""
    places = range(len(parts))
    return [
        sum(bisect_right(parts[place - step], query) for query in parts[place])  # keys that are not after it
        for place in places
    ]


def fault_in(parts: Sequence[Sequence[Any]], num_tokens: int) -> str:
    """What is wrong with the positions of all ranks, in words; empty where nothing is."""
    return fault_in_owners(parts, num_tokens) or _fault_in_balance(parts)


def _fault_in_balance(parts: Sequence[Sequence[int]]) -> str:
    for rank, own in enumerate(parts):
        runs = 1 + sum(following != one + 1 for one, following in pairwise(own))
        if runs > _MOST_RUNS:
            return f"the positions of rank {rank} make {runs} runs, and {_MOST_RUNS} are the most"
    sizes = [len(own) for own in parts]
    if max(sizes) - min(sizes) > _SIZES_APART:
        most, least = sizes.index(max(sizes)), sizes.index(min(sizes))
        return (
            f"rank {most} has {max(sizes)} positions and rank {least} has {min(sizes)}: more than {_SIZES_APART} apart"
        )
    may_be = _PAIRS_APART * max(sizes)
    for step in range(len(parts)):
        pairs = step_pairs(parts, step)
        if max(pairs) - min(pairs) > may_be:
            most, least = pairs.index(max(pairs)), pairs.index(min(pairs))
            return (
                f"in step {step} of the ring rank {most} computes {max(pairs)} pairs and rank {least} computes "
                f"{min(pairs)}: more than {may_be} apart"
            )
    return ""


# -- the judge --------------------------------------------------------------------------------------------------


def _right(num_ranks: int, num_tokens: int) -> dict[str, int]:
    return {"ranks": num_ranks, "tokens": num_tokens}


def _call(answer: Any, num_ranks: int, num_tokens: int) -> DealtParts:
    """What the answer gives for each rank."""
    traces = Traces()
    try:
        parts = DealtParts(
            plain_positions(answer(rank, num_ranks, num_tokens), num_tokens) for rank in range(num_ranks)
        )
    except ValueError:
        if num_tokens:
            raise
        parts = DealtParts([] for _ in range(num_ranks))  # who refuses a sequence without positions is as right
    parts.note = traces.left(None)
    return parts


def _compare(expected: Any, got: Any) -> str:
    if not isinstance(expected, dict):
        return "" if expected == got else "the positions differ"  # of two wrong answers
    return not_positions(got) or fault_in(got, expected["tokens"]) or getattr(got, "note", "")


def _label(num_ranks: int, num_tokens: int) -> str:
    return f"{num_tokens} positions on {num_ranks} rank{'s' * (num_ranks > 1)}"


ZIGZAG = Exercise(
    name="10.zigzag",
    may_yield=True,
    title="Equal work in every step",
    judge=by_cases_apart(
        [Case(_label(*sizes), sizes, _right) for sizes in SIZES],
        call=_call,
        compare=_compare,
    ),
    mistakes=mistakes.MISTAKES,
    hints=(
        "A position late in the sequence has much work, an early one little. A rank may have two runs: which second "
        "run balances the first positions of all?",
        "Cut the sequence into twice as many parts as there are ranks. Give each rank an early part and a late one: "
        "the earlier the one, the later the other. Where parts cannot be equal, some are longer by one.",
        "`base, extra = divmod(num_tokens, 2 * num_ranks)`; part p begins at `p * base + min(p, extra)` and has "
        "`base + (p < extra)` positions. Rank r has part r, and part `2 * num_ranks - 1 - r`.",
    ),
    forbidden=(
        "course_lib.layouts.sequence_cut.SequenceCut.positions",
        "course_lib.layouts.sequence_cut.SequenceCut.runs",
        "course_lib.parallel.context.own_positions",
    ),
    passed="Each position has one owner, and memory is even. In every step of the ring all ranks have equally much to "
    "compute, to within what a remainder leaves over.",
)
