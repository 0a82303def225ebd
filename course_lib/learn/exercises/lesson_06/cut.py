"""06.cut: share a row of pieces out to devices so that the busiest has as little as can be: linear partition."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Exercise, Judge, Mistake
from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.parallel.model import split_evenly

__all__ = ["CUT"]

_ROWS = (  # a label, what the pieces cost, and how many parts
    ("eight equal pieces, 4 parts", [2, 2, 2, 2, 2, 2, 2, 2], 4),
    ("a heavy start, 2 parts", [9, 5, 3, 2, 1, 1], 2),
    ("a heavy end, 3 parts", [1, 1, 2, 2, 3, 9], 3),
    ("two peaks, 3 parts", [1, 2, 8, 1, 1, 3, 6], 3),
    ("light and heavy mixed, 4 parts", [9, 6, 4, 2, 3, 1, 8, 4, 1], 4),
    ("one part", [4, 1, 3], 1),
    ("as many parts as pieces", [3, 1, 2], 3),
    ("costs that are no whole numbers, 3 parts", [0.3, 0.9, 0.2, 0.8, 0.1], 3),
    ("seconds, 4 parts", [0.0125, 0.003, 0.021, 0.0004, 0.011, 0.0061, 0.017, 0.0082, 0.0093], 4),
    ("pieces that cost nothing, 3 parts", [0, 0, 5, 0, 4, 0, 0, 6, 0], 3),
    ("a light end, 3 parts", [5, 4, 6, 1, 1, 1, 1], 3),
    ("a long light start, 2 parts", [1, 1, 1, 1, 1, 1, 1, 1, 9], 2),
    ("bytes, 5 parts", [1792, 147456, 131072, 73728, 524288, 1180160, 262144, 2359808, 20490, 4096, 999], 5),
    ("a heavy middle, 5 parts", [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], 5),
    # The best is 600, and the next best cuts have 603 and 604: a limit that is nearly right is not enough.
    ("four hundred pieces, 2 parts", [1 + i % 3 for i in range(300)] + [4 + i % 5 for i in range(100)], 2),
    # One best cut among 23,751: a search by chance misses it, a look at all of them finds it in a tenth of a second.
    ("thirty pieces, 5 parts", [(7 * i * i + 3 * i) % 23 + 1 for i in range(30)], 5),
    ("all costs nothing, 2 parts", [0, 0, 0], 2),
)
Costs = Sequence[float]


def _loads(costs: Costs, sizes: Sequence[int]) -> list[float]:
    ends = list(itertools.accumulate(sizes))
    return [sum(costs[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def _right(costs: Costs, num_parts: int) -> dict[str, Any]:
    sizes = [len(part) for part in split_evenly(costs, num_parts)]
    return {"costs": costs, "parts": num_parts, "largest": max(_loads(costs, sizes)), "sizes": sizes}


def _sizes(got: Any) -> list[int] | None:
    """The whole numbers of a list, of any other sequence or of an array; None where there are none."""
    try:
        sizes = got.tolist() if hasattr(got, "tolist") else got
        if isinstance(sizes, str | bytes) or not isinstance(sizes, Sequence):
            return None
        return None if any(isinstance(size, bool) for size in sizes) else [operator.index(s) for s in sizes]
    except TypeError:
        return None


def _compare(expected: Any, got: Any) -> str:
    """Any cut that is as good as the best one is right. Two answers, neither of them a row, are alike when equal."""
    if not isinstance(expected, dict):
        return difference(_sizes(expected) or expected, _sizes(got) or got)
    costs, num_parts, sizes = expected["costs"], expected["parts"], _sizes(got)
    if sizes is None:
        return f"expected a list of {num_parts} whole numbers, how many pieces each part gets; got {short(got)}"
    if len(sizes) != num_parts or sum(sizes) != len(costs) or min(sizes) < 1:
        return f"{sizes} does not share {len(costs)} pieces out to {num_parts} parts of at least one"
    loads = _loads(costs, sizes)
    if max(loads) <= expected["largest"] * (1 + 1e-9):
        return ""
    return f"costs {costs} cut as {sizes} give parts of {_in_short(loads)}; the largest can be {expected['largest']:g}"


def _items_asked_for(judge: Judge) -> Judge:
    """The judge, which asks an answer that is an iterator for its items, as ``list`` does."""

    def judged(answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        if not callable(answer):
            return judge(answer, forbidden)

        @functools.wraps(answer, updated=())
        def listed(costs: Costs, num_parts: int) -> Any:
            got = answer(costs, num_parts)
            return list(itertools.islice(got, len(costs) + 1)) if isinstance(got, Iterator) else got

        return dataclasses.replace(judge(listed, forbidden), answer=answer)

    vars(judged).update(vars(judge), judge=judge)
    return judged


def _in_short(loads: Sequence[float]) -> str:
    return f"[{', '.join(f'{load:g}' for load in loads)}]"


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _by_count(costs: Costs, num_parts: int) -> list[int]:
    return [len(costs) // num_parts + (part < len(costs) % num_parts) for part in range(num_parts)]


def _fill(costs: Costs, num_parts: int, *, over: bool) -> list[int]:
    """Part by part up to the average; ``over`` takes the piece that crosses it as well."""
    average, sizes, at = sum(costs) / num_parts, [], 0
    for part in range(num_parts - 1):
        size, load, left = 0, 0.0, len(costs) - at - (num_parts - part - 1)
        while size < left and (size == 0 or (load < average if over else load + costs[at + size] <= average)):
            load, size = load + costs[at + size], size + 1
        sizes.append(size)
        at += size
    return [*sizes, len(costs) - at]


def _halves_of_halves(costs: Costs, num_parts: int) -> list[int]:
    if num_parts == 1 or len(costs) == 1:
        return [len(costs)]
    left = num_parts // 2
    cuts = range(left, len(costs) - (num_parts - left) + 1)
    best = min(cuts, key=lambda cut: abs(sum(costs[:cut]) * (num_parts - left) - sum(costs[cut:]) * left))
    return _halves_of_halves(costs[:best], left) + _halves_of_halves(costs[best:], num_parts - left)


def _not_neighbours(costs: Costs, num_parts: int) -> list[int]:
    """Each piece, the costliest first, to the part that has least: good, and no row any more."""
    loads, sizes = [0.0] * num_parts, [0] * num_parts
    for cost in sorted(costs, reverse=True):
        part = loads.index(min(loads))
        loads[part] += cost
        sizes[part] += 1
    return sizes


def _costs_came(evidence: Evidence) -> bool:
    """Every answer sums up to what the pieces cost, and not to their number."""
    answers = [(o.expected["costs"], o.got) for o in evidence.outcomes if o.error is None]
    return bool(answers) and all(
        isinstance(got, list | tuple)
        and all(isinstance(load, int | float) for load in got)
        and abs(sum(got) - sum(costs)) < 1e-9
        for costs, got in answers
    )


def _best_by(key: Callable[[list[float]], float]) -> Callable[[Costs, int], list[int]]:
    """Looks at every cut, and keeps the one whose parts have the least of something."""

    def answer(costs: Costs, num_parts: int) -> list[int]:
        cuts = itertools.combinations(range(1, len(costs)), num_parts - 1)
        sizes = [[b - a for a, b in itertools.pairwise((0, *inner, len(costs)))] for inner in cuts]
        return min(sizes, key=lambda one: key(_loads(costs, one)))

    return answer


def _loses_pieces(outcome: AnswerOutcome) -> bool:
    sizes = None if outcome.error is not None else _sizes(outcome.got)
    expected = outcome.expected
    return sizes is not None and len(sizes) == expected["parts"] and sum(sizes) != len(expected["costs"])


CUT = Exercise(
    name="06.cut",
    title="Where to cut",
    judge=_items_asked_for(
        by_cases_apart([Case(label, (costs, num_parts), _right) for label, costs, num_parts in _ROWS], compare=_compare)
    ),
    mistakes=(
        Mistake(
            "costs-not-counts",
            "Your numbers add up to what the pieces *cost*. Return how *many* pieces each part gets; the cuts are "
            "then known, and the costs follow from them.",
            recognise=_costs_came,
        ),
        Mistake(
            "loses-pieces",
            "The numbers do not add up to the number of pieces. Each number says how many pieces a part has, and "
            "each piece belongs to one part.",
            recognise=lambda evidence: any(map(_loses_pieces, evidence.outcomes)),
            shows=_loses_pieces,
        ),
        Mistake(
            "by-count",
            "Every part has the same number of pieces, or nearly, whatever they cost. The device with the "
            "costly ones is the one "
            "that all others wait for, and the one that runs out of memory.",
            _by_count,
        ),
        Mistake(
            "fills-until-over-the-average",
            "You fill a part until it is over the average, and go on with the next. The piece that crosses the line "
            "can be a heavy one, and then this part is far over it. Compare: what would the largest part be if that "
            "piece went to the next part?",
            lambda costs, num_parts: _fill(costs, num_parts, over=True),
        ),
        Mistake(
            "leaves-the-rest-to-the-last",
            "You stop each part before it goes over the average. Every part but the last is then light, and what all "
            "of them left over piles up in the last one.",
            lambda costs, num_parts: _fill(costs, num_parts, over=False),
        ),
        Mistake(
            "halves-of-halves",
            "Where your sizes are not the best, they are those that come of a cut in two, and another in each half. "
            "A first cut that is the best for two parts stays where it is; the best cut for four parts need not have "
            "one there. Look at the cuts together, not at one after the other.",
            _halves_of_halves,
        ),
        Mistake(
            "not-neighbours",
            "These sizes would be good if any piece could go anywhere. Layers stand in a row: a part is a run of "
            "neighbours, so the first part has the first pieces.",
            _not_neighbours,
        ),
        Mistake(
            "lifts-the-smallest",
            "Your smallest part is as large as can be; that is another question. All devices wait for the slowest: "
            "make the *largest* part as small as can be.",
            _best_by(lambda loads: -min(loads)),
        ),
        Mistake(
            "least-squares",
            "Your parts have the least sum of squares. That makes all of them nearly alike, and it may let the largest "
            "grow to make two others more equal. Compare cuts by their largest part alone.",
            _best_by(lambda loads: sum(load * load for load in loads)),
        ),
        Mistake(
            "as-alike-as-can-be",
            "Your parts are as alike as can be: the largest and the smallest are close. To get there you let the "
            "largest grow. A light part harms nobody; the largest is what all wait for.",
            _best_by(lambda loads: max(loads) - min(loads)),
        ),
    ),
    hints=(
        "The first part takes one piece, or two, or three. For each of these, what is the best that the other parts "
        "can do with what is left?",
        "That is the same question with fewer pieces and one part fewer: the function can call itself. A cut is as "
        "good as its largest part, so compare `max(first part, largest of the rest)`.",
        "`for first in range(1, len(costs) - num_parts + 2):` then `sizes = [first, *cut_evenly(costs[first:], "
        "num_parts - 1)]`; keep the sizes whose largest part is smallest. One part takes all: `[len(costs)]`.",
    ),
    forbidden=("course_lib.parallel.model.split_evenly",),
    may_yield=True,
    passed="No cut has a smaller largest part, in any of the rows that were tried.",
)
