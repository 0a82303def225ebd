"""ZB-V: a zero bubble schedule with two stages a rank, placed in a V, and the memory of 1F1B.

Source: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 6. The letters are those of
``zero_bubble.py``.
"""

from __future__ import annotations

from collections import Counter

from course_lib.checked import checked
from course_lib.schedules.action import Action
from course_lib.schedules.table import Schedule, check_counts, placement

__all__ = ["zero_bubble_v"]


@checked
def zero_bubble_v(num_ranks: int, num_micro_batches: int) -> Schedule:
    """Two stages a rank, placed in a V (the first rank holds the first and the last), and no gap but the stagger.

    The order is the paper's for a forward, an I and a W that take equal time. With fewer than ``2 num_ranks - 1``
    micro-batches it is what is left of it without the higher ones.
    """
    check_counts(num_ranks, num_micro_batches)
    rank_of_stage = placement(num_ranks, 2, "v")
    rows = tuple(
        tuple(a for a in _v_row(rank, num_ranks, num_micro_batches) if a.micro_batch < num_micro_batches)
        for rank in range(num_ranks)
    )
    return Schedule("ZB-V", num_micro_batches, rank_of_stage, rows)


def _v_row(rank: int, num_ranks: int, num_micro_batches: int) -> list[Action]:
    """The order of one rank: letters with their stage, where the n-th of a kind on a stage is for micro-batch n.

    In words, ``F`` is the forward of the stage on the way down, ``f`` that on the way up; likewise I, i, W and w.
    """
    m, down, up = max(num_micro_batches, 2 * num_ranks - 1), rank, 2 * num_ranks - 1 - rank
    hops = num_ranks - rank  # to the turn of the V, this rank counted
    words = "F" * (2 * hops - 1)  # fill the way down until the first micro-batch comes back
    words += "fF" * rank
    words += "fiw" * hops  # the way up: its backward may follow at once at the last stage
    num_down = 2 * hops - 1 + rank
    words += "FIWfiw" * (m - num_down)  # steady: everything once
    words += "IWfiw" * (num_down - rank - hops)  # no new micro-batch comes in
    words += "Ii" * rank  # the stage before waits: inputs first
    words += "IW" * hops
    words += "w" * rank + "W" * rank  # what was kept back
    seen: Counter[str] = Counter()
    row = []
    for word in words:
        row.append(Action(word.upper(), down if word.isupper() else up, seen[word]))
        seen[word] += 1
    return row
