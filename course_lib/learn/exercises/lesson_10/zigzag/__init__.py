"""10.zigzag: who has which positions, so that a causal ring keeps all ranks equally busy.

An answer is judged by what it promises and not by one order: whichever rank has the middle, and wherever a remainder
goes, each position has one owner, memory is even, and so is the work of every step.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_10.zigzag import mistakes
from course_lib.learn.exercises.lesson_10.zigzag.labels import FALLS, MISSING, SIZES
from course_lib.learn.judging.compare import Difference, short
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
    for rank, own in enumerate(parts):
        if said := _fault_of_one(rank, own, num_tokens):
            return said
    return _fault_in_owners(parts, num_tokens) or _fault_in_balance(parts)


def _fault_of_one(rank: int, own: Sequence[Any], num_tokens: int) -> str:
    for position in own:
        if not _is_whole(position):
            return f"rank {rank} has {short(position)} among its positions, which is no whole number"
        if not 0 <= position < num_tokens:
            there = f"positions are 0 to {num_tokens - 1}" if num_tokens else "there are none"
            return f"rank {rank} has position {position}, and {there}"
    for one, following in pairwise(own):
        if one == following:
            return f"rank {rank} has position {one} twice"
        if one > following:
            return Difference(f"rank {rank} has position {one} before {following}, and they are to rise", FALLS)
    return ""


def _fault_in_owners(parts: Sequence[Sequence[int]], num_tokens: int) -> str:
    owner: dict[int, int] = {}
    for rank, own in enumerate(parts):
        for position in own:
            if position in owner:
                return f"position {position} is with rank {owner[position]} and with rank {rank}"
            owner[position] = rank
    missing = [position for position in range(num_tokens) if position not in owner]
    if missing:
        others = len(missing) - 1
        more = f", and {others} more {'is' if others == 1 else 'are'} missing" if others else ""
        return Difference(f"no rank has position {missing[0]}{more}", MISSING)
    return ""


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


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _right(num_ranks: int, num_tokens: int) -> dict[str, int]:
    return {"ranks": num_ranks, "tokens": num_tokens}


class DealtParts(list[Any]):
    """What came for each rank; ``note`` is what the answer does besides, in words."""

    note = ""


def _call(answer: Any, num_ranks: int, num_tokens: int) -> DealtParts:
    """What the answer gives for each rank."""
    traces = Traces()
    try:
        parts = DealtParts(_plain(answer(rank, num_ranks, num_tokens), num_tokens) for rank in range(num_ranks))
    except ValueError:
        if num_tokens:
            raise
        parts = DealtParts([] for _ in range(num_ranks))  # who refuses a sequence without positions is as right
    parts.note = traces.left(None)
    return parts


def _plain(given: Any, num_tokens: int) -> Any:
    """The positions as a list, whether they came as a tuple, an array, a range or a generator."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, Iterator):
        given = [one for one, _ in zip(given, range(num_tokens + 1), strict=False)]  # it may never end
    if isinstance(given, tuple | range):
        given = list(given)
    return [_index(one) for one in given] if isinstance(given, list) else given


def _index(value: Any) -> Any:
    """Whole numbers of other libraries as those of Python."""
    if isinstance(value, bool | float):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value


def _compare(expected: Any, got: Any) -> str:
    if not isinstance(expected, dict):
        return "" if expected == got else "the positions differ"  # of two wrong answers
    for rank, own in enumerate(got):
        if own is ...:
            return f"rank {rank} got `...` in place of positions"
        if own is None:
            return "nothing came back (`None`); a function gives its result with `return`"
        if not isinstance(own, list):
            return f"expected a list of positions such as [0, 1, 2] for rank {rank}, got {short(own)}"
    return fault_in(got, expected["tokens"]) or getattr(got, "note", "")


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
        "A position late in the sequence has much to do, an early one little. A rank may have two runs: what would you "
        "give it beside the first positions of all?",
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
    passed="Each position has one owner, memory is even, and in every step of the ring all ranks have equally much to "
    "compute, to within what a remainder leaves over.",
)
