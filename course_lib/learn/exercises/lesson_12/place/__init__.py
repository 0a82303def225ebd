"""12.place: node and local rank of every global rank, and back, on nodes of any sizes.

The answer is a class, made of the number of ranks on each node, with two methods: ``place_of(rank)`` and
``rank_of(node, local_rank)``. It is judged without ranks, on nodes of equal sizes and of different ones, and on one.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_12.place import wrong_answers
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["LAYOUTS", "NODE_PLACES", "PLACE_OF", "RANK_OF", "fault_in_places", "fault_in_ranks", "places_on"]

LAYOUTS: tuple[tuple[int, ...], ...] = ((8, 8, 4), (2, 2), (2, 5, 1, 3), (1, 6, 6), (1, 1, 1), (5,), (64, 24, 8))
PLACE_OF, RANK_OF = "place_of", "rank_of"
_A_CLASS = "expected the class itself, with its two methods, and got something else"

Place = tuple[int, int]


def places_on(sizes: Sequence[int]) -> list[Place]:
    """(node, local rank) of every rank, in the order of ranks: first all of node 0, then all of node 1, and so on."""
    return [(node, local) for node, size in enumerate(sizes) for local in range(size)]


def fault_in_places(sizes: Sequence[int], ranks: Sequence[int], got: Any) -> str:
    """What is wrong with the places of ``ranks``; ``got`` has one for each of them."""
    right = places_on(sizes)
    for rank, found in zip(ranks, got, strict=True):
        place = _pair(found)
        if place == right[rank]:
            continue
        call = f"with {list(sizes)}, place_of({rank})"
        if found is None:
            return f"{call} gives nothing back (`None`); a method gives its result with `return`"
        if place is None:
            return f"{call} gives {short(found)}; expected a node and a local rank, such as (0, 1)"
        node, local = right[rank]
        return f"{call} gives {place}, and rank {rank} is on node {node}, with the local rank {local}"
    return ""


def fault_in_ranks(sizes: Sequence[int], places: Sequence[Place], got: Any) -> str:
    """What is wrong with the ranks at ``places``."""
    right = {place: rank for rank, place in enumerate(places_on(sizes))}
    for place, found in zip(places, got, strict=True):
        rank = _whole(found)
        if rank == right[place]:
            continue
        call = f"with {list(sizes)}, rank_of{place}"
        if found is None:
            return f"{call} gives nothing back (`None`); a method gives its result with `return`"
        if rank is None:
            return f"{call} gives {short(found)}, which is no whole number"
        return f"{call} gives rank {rank}, and that place is rank {right[place]}'s"
    return ""


def _pair(found: Any) -> Place | None:
    """Two whole numbers, of whatever kinds they came; None where that is not what came."""
    found = found.tolist() if hasattr(found, "tolist") else found
    if not isinstance(found, list | tuple) or len(found) != 2:
        return None
    node, local = (_whole(one) for one in found)
    return None if node is None or local is None else (node, local)


def _whole(value: Any) -> int | None:
    """A whole number of any kind, as an int."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError):
        return None


# -- the judge --------------------------------------------------------------------------------------------------


def _right(sizes: list[int], method: str, asked: Any) -> dict[str, Any]:
    """What the comparison needs."""
    return {"sizes": sizes, "method": method, "asked": asked}


def _call(answer: Any, sizes: list[int], method: str, asked: Any) -> Any:
    """The places of all ranks, or the ranks at all places, which one object may be asked for more than once."""
    if not isinstance(answer, type):
        return _A_CLASS
    mine = answer(sizes)
    if method == PLACE_OF:
        mine.place_of(asked[0])
        return [mine.place_of(rank) for rank in asked]
    mine.rank_of(*asked[0])
    return [mine.rank_of(*place) for place in asked]


def _compare(expected: Any, got: Any) -> str:
    if not isinstance(expected, dict):
        return "" if expected == got else "they differ"  # two wrong answers, side by side
    if got is None or got == _A_CLASS:
        return got or "nothing came back (`None`); a method gives its result with `return`"
    if expected["method"] == PLACE_OF:
        return fault_in_places(expected["sizes"], expected["asked"], got)
    return fault_in_ranks(expected["sizes"], [tuple(place) for place in expected["asked"]], got)


def _cases() -> list[Case]:
    """Ranks are asked for from the last to the first, so that an answer cannot count along."""
    cases = []
    for sizes in LAYOUTS:
        ranks, places = list(reversed(range(sum(sizes)))), list(reversed(places_on(sizes)))
        cases.append(Case(f"the places of all ranks on {list(sizes)}", (list(sizes), PLACE_OF, ranks), _right))
        cases.append(Case(f"the ranks of all places on {list(sizes)}", (list(sizes), RANK_OF, places), _right))
    return cases


NODE_PLACES = Exercise(
    name="12.place",
    title="Node and local rank",
    judge=by_cases_apart(_cases(), call=_call, compare=_compare),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "Count the ranks of [8, 8, 4] on paper: which one is the first of each node? How far is rank 17 from the first "
        "of its own?",
        "The first rank of a node is the sum of the sizes of all nodes before it. A rank is on the last node whose "
        "first rank is not above it; its local rank is the difference.",
        "`rank_of`: `sum(self.sizes[:node]) + local_rank`. `place_of`: start at node 0, and `while rank >= "
        "self.sizes[node]`: take that node's size away from the rank, and go to the next node. Then `node, rank` is "
        "the answer.",
    ),
    passed="Every rank has its node and its local rank, and every place its rank, on nodes of one rank and of many, "
    "alike and not. torchrun numbers them in the same way.",
)
