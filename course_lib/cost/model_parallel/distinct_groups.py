"""On how many ranks, or nodes, a token's experts lie: how many rows it sends if it sends one to each.

A token has k different experts out of E, every set of k as likely as any other, and the experts lie in g groups of
E/g. It misses a group if all k are among the E - E/g others: in C(E - E/g, k) of C(E, k) cases.
"""

from __future__ import annotations

from math import comb

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, divides

__all__ = ["distinct_groups"]


@checked
def distinct_groups(*, num_experts: int, top_k: int, num_groups: int) -> float:
    """How many of ``num_groups`` groups have one of a token's experts, in the mean over all choices.

    ``ValueError`` for more choices than experts, and for groups that have unequally many.

    >>> distinct_groups(num_experts=4, top_k=2, num_groups=2)  # 2 of 6 pairs lie in one group
    1.6666666666666667
    """
    at_least(1, num_experts=num_experts, top_k=top_k, num_groups=num_groups)
    divides(num_experts, "experts", num_groups=num_groups)
    if top_k > num_experts:
        raise ValueError(
            f"top_k={top_k} experts cannot be chosen from num_experts={num_experts}; the nearest that works is "
            f"{num_experts}"
        )
    others = num_experts - num_experts // num_groups
    return num_groups * (1 - comb(others, top_k) / comb(num_experts, top_k))
