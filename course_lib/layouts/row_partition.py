"""How rows are dealt out among ranks: two rules, as arithmetic. Without torch.

::

    7 rows on 4 ranks, as evenly as can be        2 2 2 1    slices of tensor parallelism, the rows of a batch
    9 rows on 4 ranks, equal parts rounded up     3 3 3 0    shards of ZeRO: a collective wants equal parts

They agree wherever the number of ranks divides.
"""

from __future__ import annotations

from course_lib.base.checked import checked
from course_lib.base.checks import MOST_RANKS, at_least, at_most

__all__ = ["rounded_up_range", "split_sizes"]


@checked
def split_sizes(num_rows: int, num_parts: int) -> list[int]:
    """Rows of each part when they are dealt out as evenly as can be: the first parts get one more."""
    at_least(0, num_rows=num_rows)
    at_least(1, num_parts=num_parts)
    at_most(MOST_RANKS, num_parts=num_parts)
    base, extra = divmod(num_rows, num_parts)
    return [base + (part < extra) for part in range(num_parts)]


def rounded_up_range(num_rows: int, num_parts: int, part: int) -> tuple[int, int]:
    """First row of a part, and the one after its last, where all have equally many, rounded up, and the last fewer.

    The two are equal where the part has none. Nothing is checked here: ``Rows`` and ``piece_of`` do.
    """
    rows = -(-num_rows // num_parts)
    return min(part * rows, num_rows), min((part + 1) * rows, num_rows)
