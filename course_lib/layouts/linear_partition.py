"""A row of pieces cut into neighbouring parts that cost about equally much. Data, without torch.

Where a model is cut into the stages of a pipeline is decided here, for ranks that run (``course_lib.parallel.model``)
and for the cost model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from course_lib.base.checked import checked
from course_lib.base.checks import at_least

__all__ = ["split_evenly"]


@checked
def split_evenly(costs: Sequence[float], num_parts: int) -> list[range]:
    """Cut a row of pieces into ``num_parts`` neighbouring parts so that the costliest part costs as little as can be.

    The linear partition problem. ``costs[i]`` is what piece i costs, in any unit. Returns the range of pieces of each
    part; no part is empty.
    Exact: of all cuts the one whose largest part is smallest; among those, whose second largest is smallest, and so
    on; then the one that cuts first. A dynamic programme: the best way to cut the first ``end`` pieces into k parts
    is the best way to cut some fewer pieces into k - 1 parts, and one more part.
    """
    _check_costs(costs, num_parts)
    until = [0, *itertools.accumulate(costs)]  # until[i]: what the pieces before i cost together
    # best[end]: the first `end` pieces in k parts, as (costs of the parts, largest first; where each part begins)
    best: dict[int, tuple[list[float], tuple[int, ...]]] = {0: ([], ())}
    for k in range(1, num_parts + 1):
        ends = range(k, len(costs) - (num_parts - k) + 1)  # a piece at least for each part, before and after
        best = {
            end: min(
                (sorted([*loads, until[end] - until[begin]], reverse=True), (*begins, begin))
                for begin, (loads, begins) in best.items()
                if begin < end
            )
            for end in ends
        }
    _, begins = best[len(costs)]
    return [range(begin, end) for begin, end in itertools.pairwise((*begins, len(costs)))]


def _check_costs(costs: Sequence[float], num_parts: int) -> None:
    at_least(1, num_parts=num_parts)
    if len(costs) < num_parts:
        raise ValueError(
            f"num_parts={num_parts} is more than there are pieces to share out: every part needs one. "
            f"The most that works is {len(costs)}."
        )
    for place, cost in enumerate(costs):
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf:
            raise ValueError(f"costs[{place}]={cost!r} must be a number, 0 or more; the nearest that works is 0.")
